"""Sessions through the host, used well and badly: nothing hangs, nothing is half done, errors have names."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.core.errors import (
    CommandInterrupted,
    HostNotStarted,
    InvalidInput,
    NotWaiting,
    SessionBusy,
    SessionElsewhere,
    SessionEnded,
    SessionNotFound,
    TurnAlreadyRunning,
)
from holdfast.core.events import (
    MessageAccepted,
    SessionTrouble,
    TurnCompleted,
)
from holdfast.host import HostOptions, SessionHost
from holdfast.sessions import SessionDB
from holdfast.testing import ScriptedModel
from tests.agent.agent_fixtures import Hold, echo, until
from tests.host.hanging_provider import run_turns
from tests.host.host_fixtures import a_host, until_turns_end
from tests.host.transcripts import said

Wait = Callable[[Awaitable[Any]], Any]
IMPATIENT = HostOptions(poll_seconds=0.02, shutdown_seconds=2.0, patience_seconds=0.1)


def test_a_host_is_used_after_it_is_entered_and_entered_once(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        host = a_host(db)
        with pytest.raises(HostNotStarted):
            await host.send("s", "too early")
        async with host:
            with pytest.raises(InvalidInput, match="started already"):
                await host.__aenter__()
            await host.send("s", "hello")
            assert db.get_session("s") is not None

    wait(scenario())


def wishes(host: SessionHost, session: str) -> dict[str, Callable[[], Awaitable[Any]]]:
    return {
        "clear": lambda: host.commands.clear(session),
        "compact": lambda: host.commands.compact(session),
        "resume": lambda: host.commands.resume(session),
        "drop": lambda: host.commands.drop(session),
        "retry": lambda: host.commands.retry(session),
        "truncate": lambda: host.commands.truncate(session, before=0),
    }


def test_every_call_on_an_unknown_session_is_refused_by_name(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with a_host(db) as host:
            calls: dict[str, Callable[[], Awaitable[Any]]] = {
                **wishes(host, "nowhere"),
                "branch": lambda: host.records.branch("nowhere"),
                "interrupt": lambda: host.interrupt("nowhere"),
                "waiting": lambda: host.records.waiting("nowhere"),
                "run_waiting": lambda: host.commands.run_waiting("nowhere"),
                "unfinished": lambda: host.commands.unfinished("nowhere"),
                "events": lambda: anext(host.events("nowhere")),
            }
            for name, call in calls.items():
                with pytest.raises(SessionNotFound):
                    await call()
                assert db.get_session("nowhere") is None, name
            with pytest.raises(NotWaiting):
                await host.records.withdraw(12345)
            with pytest.raises(InvalidInput):
                await host.send("", "hi")
            with pytest.raises(InvalidInput):
                await host.send("s", {"role": "assistant", "content": "I am you"})
            with pytest.raises(InvalidInput):
                await host.send("s", "hi", "shout")  # type: ignore[arg-type]

    wait(scenario())


@pytest.mark.parametrize("name", ["clear", "compact", "resume", "drop", "retry", "truncate"])
def test_what_another_process_holds_is_refused_after_a_short_patience(
    db: SessionDB, wait: Wait, name: str
) -> None:
    async def scenario() -> None:
        async with a_host(db, options=IMPATIENT) as host:
            await host.new_session(session_id="s")
            assert db.hold_session("s", "another process") is not None
            with pytest.raises(SessionElsewhere, match="another process"):
                await wishes(host, "s")[name]()
            assert (await host.overview.session_status("s")).state == "elsewhere"
            # Nothing of the refused wish is left to happen later.
            db.let_go_of_session("s", "another process")
            await run_turns(host, "s", "hi")
            assert (await host.overview.session_status("s")).state == "idle"
            session = db.get_session("s")
            assert session is not None
            assert session.ended is None

    wait(scenario())


def test_a_conversation_is_not_branched_off_while_its_turn_runs(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        async with a_host(db, [hold, "again"]) as host:
            await host.send("s", "go")
            await hold.reached.wait()
            with pytest.raises(TurnAlreadyRunning):
                await host.commands.retry("s")
            with pytest.raises(TurnAlreadyRunning):
                await host.commands.truncate("s", before=0)
            assert await host.commands.unfinished("s") is None
            branch = await host.records.branch("s", before=0)
            await run_turns(host, branch, "meanwhile")
            hold.opened.set()
            await until_turns_end(host, "s")
            assert said(db, branch) == [("user", "meanwhile"), ("assistant", "again")]

    wait(scenario())


def test_a_cleared_session_waits_for_its_turn_then_takes_no_more(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        async with a_host(db, [hold]) as host:
            await host.send("s", "go")
            await hold.reached.wait()
            clearing = asyncio.create_task(host.commands.clear("s"))
            hold.opened.set()
            fresh = await clearing
            assert said(db, "s") == [("user", "go"), ("assistant", "held")]
            with pytest.raises(SessionEnded):
                await host.send("s", "too late")
            with pytest.raises(SessionEnded):
                await host.commands.clear("s")
            assert db.get_messages(fresh) == []

    wait(scenario())


def test_a_clear_that_is_sent_again_while_it_waits_is_answered_like_the_first(
    db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        hold = Hold()
        async with a_host(db, [hold]) as host:
            await host.send("s", "go")
            await hold.reached.wait()
            clearing = [asyncio.create_task(host.commands.clear("s", key="k")) for _ in range(3)]
            conversation = host._conversations.opened["s"]  # noqa: SLF001
            await until(lambda: len(conversation._commands._pending) == 3)  # noqa: SLF001
            hold.opened.set()
            fresh = await clearing[0]
            assert [await each for each in clearing] == [fresh] * 3
            assert await host.commands.clear("s", key="k") == fresh
            with pytest.raises(SessionEnded):
                await host.commands.clear("s", key="another")

    wait(scenario())


def test_a_session_with_a_waiting_message_is_not_cleared_over_it(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        async with a_host(db, [hold, "two"]) as host:
            await host.send("s", "one")
            await hold.reached.wait()
            await host.send("s", "two")
            clearing = asyncio.create_task(host.commands.clear("s"))
            conversation = host._conversations.opened["s"]  # noqa: SLF001
            await until(lambda: bool(conversation._commands))  # noqa: SLF001
            hold.opened.set()
            with pytest.raises(SessionBusy, match="wait"):
                await clearing
            await until_turns_end(host, "s", 2)

    wait(scenario())


def test_a_retry_says_the_last_turns_message_again_in_a_branch(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with a_host(db, ["one", "two", "better"]) as host:
            await host.new_session(session_id="s")
            with pytest.raises(InvalidInput, match="nothing to say again"):
                await host.commands.retry("s")
            await run_turns(host, "s", "first", "second")
            branch = await host.commands.retry("s")
            await until_turns_end(host, branch)
            kept = [("user", "first"), ("assistant", "one"), ("user", "second")]
            assert said(db, branch) == [*kept, ("assistant", "better")]
            assert said(db, "s") == [*kept, ("assistant", "two")]

    wait(scenario())


def test_a_summary_is_not_said_again(db: SessionDB, wait: Wait) -> None:
    db.create_session("s", source="test")
    db.rotate("s", "child", [{"role": "user", "content": "a summary"}], carry_from=0)

    async def scenario() -> None:
        async with a_host(db) as host:
            with pytest.raises(InvalidInput, match="nothing to say again"):
                await host.commands.retry("s")

    wait(scenario())


def test_places_out_of_range_and_nothing_to_resume_are_refused(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with a_host(db) as host:
            await host.new_session(session_id="s")
            await run_turns(host, "s", "hi")
            for before in (-1, 3):
                with pytest.raises(InvalidInput, match="between 0 and 2"):
                    await host.commands.truncate("s", before=before)
            for name in ("resume", "drop"):
                with pytest.raises(InvalidInput, match="no turn is unfinished"):
                    await wishes(host, "s")[name]()
            empty = await host.new_session()
            assert await host.commands.compact(empty) == empty

    wait(scenario())


def test_the_same_key_twice_is_one_message(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        async with a_host(db, [hold]) as host:
            first = await host.send("s", "pay the bill", key="k")
            await hold.reached.wait()
            second = await host.send("s", "pay the bill", "interrupt", key="k")
            assert (second.inbox_id, second.mode) == (first.inbox_id, "queue")
            hold.opened.set()
            events = await until_turns_end(host, "s")
            assert isinstance(events[-1], TurnCompleted)
            assert sum(isinstance(event, MessageAccepted) for event in events) == 1
            assert said(db, "s") == [("user", "pay the bill"), ("assistant", "held")]
            with pytest.raises(InvalidInput, match="another conversation"):
                await host.send("t", "pay the bill", key="k")

    wait(scenario())


def test_a_waiting_message_that_is_sent_again_waits_once(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        async with a_host(db, [hold, "paid"]) as host:
            await host.send("s", "hello")
            await hold.reached.wait()
            sent = [await host.send("s", "pay the bill", key="k") for _ in range(3)]
            assert len({each.inbox_id for each in sent}) == 1
            hold.opened.set()
            events = await until_turns_end(host, "s", 2)
            told = [each.inbox_id for each in events if isinstance(each, MessageAccepted)]
            assert told.count(sent[0].inbox_id) == 1

    wait(scenario())


@pytest.mark.parametrize("text", ["nul \0 nul", "half \ud83d pair", "x" * 10_000_000, "\u202e \U0001f600"])
def test_any_text_is_kept_word_for_word(db: SessionDB, wait: Wait, text: str) -> None:
    async def scenario() -> None:
        async with a_host(db, lambda _: ScriptedModel(["ok", "ok"], context_window=50_000_000)) as host:
            await host.new_session(session_id="s")
            await run_turns(host, "s", text)
            assert said(db, "s")[0] == ("user", text)

    wait(scenario())


def test_a_wish_whose_maker_left_harms_nobody(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        model = ScriptedModel(["long " * 800, "long " * 800, hold, "still here"], context_window=3_200)
        async with a_host(db, lambda _: model) as host:
            await host.new_session(session_id="s")
            await run_turns(host, "s", "talk", "go on")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await host.commands.compact("s")
            hold.opened.set()
            await run_turns(host, "s", "are you there?")
            assert said(db, db.sessions.live_end("s"))[-1][0] == "assistant"

    wait(scenario())


def test_an_agent_that_cannot_be_made_is_said_and_frees_the_session(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        broken = [True]

        def model(_: str) -> ScriptedModel:
            if broken.pop() if broken else False:
                raise RuntimeError("no such model")
            return ScriptedModel(["here"])

        async with a_host(db, model) as host:
            await host.new_session(session_id="s")
            await host.send("s", "hi")
            async for numbered in host.events("s", after=0):
                if isinstance(numbered.event, SessionTrouble):
                    assert "no such model" in numbered.event.error
                    break
            await until(lambda: db.session_holder("s") is None)
            await host.send("s", "again")
            await until_turns_end(host, "s", 2)
            assert [text for role, text in said(db, "s") if role == "user"] == ["hi", "again"]

    wait(scenario())


def test_a_wish_on_a_session_whose_agent_cannot_work_is_answered(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with a_host(db, ["one"], tools=[echo(), echo()]) as host:
            await host.send("s", "hi")
            async for numbered in host.events("s", after=0):
                if isinstance(numbered.event, SessionTrouble):
                    break
            assert len(await host.records.waiting("s")) == 1

    wait(scenario())

    async def broken_agent() -> None:
        def model(_: str) -> ScriptedModel:
            raise RuntimeError("no such model")

        again = SessionDB(":memory:")
        async with a_host(again, model) as host:
            await host.new_session(session_id="s")
            with pytest.raises(RuntimeError, match="no such model"):
                await host.commands.compact("s")

    wait(broken_agent())


def test_asking_how_a_session_stands_never_disturbs_its_turn(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        model = ScriptedModel([f"answer {number}" for number in range(20)])
        async with a_host(db, lambda _: model) as host:
            await host.new_session(session_id="s")

            async def ask() -> None:
                while len(db.get_messages("s")) < 40:
                    await host.overview.session_status("s")
                    await host.commands.unfinished("s")

            asking = asyncio.create_task(ask())
            for number in range(20):
                await host.send("s", f"question {number}")
            await asking
            for number, request in enumerate(model.requests):
                assert request.messages[-1]["content"] == f"question {number}"
                assert len(request.messages) == 2 * number + 1

    wait(scenario())


def test_an_interrupted_wish_is_answered(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        model = ScriptedModel(["long " * 800, "long " * 800, hold], context_window=3_200)
        async with a_host(db, lambda _: model) as host:
            await host.new_session(session_id="s")
            assert not await host.interrupt("s")
            await run_turns(host, "s", "talk", "go on")
            compacting = asyncio.create_task(host.commands.compact("s"))
            await hold.reached.wait()
            assert await host.interrupt("s")
            with pytest.raises(CommandInterrupted):
                await compacting
            assert db.get_compression_lock_holder("s") is None

    wait(scenario())
