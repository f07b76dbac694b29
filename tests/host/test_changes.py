"""The changes of all conversations: the newest of each, at once from here, soon from other processes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from holdfast.host import ConversationStatus, SessionHost
from holdfast.sessions import SessionDB
from holdfast.testing.scripted_model import Call
from holdfast.tools.contract import ToolContext, ToolResult
from tests.agent.agent_fixtures import Hold, echo, until
from tests.host.host_fixtures import a_host, until_turns_end

Wait = Callable[[Awaitable[Any]], Any]


@asynccontextmanager
async def listening(host: SessionHost) -> AsyncIterator[list[ConversationStatus]]:
    """What a listener has heard so far."""
    heard: list[ConversationStatus] = []
    tell = heard.append
    begun = asyncio.Event()

    async def listen() -> None:
        async with aclosing(host.overview.changes()) as changes:
            begun.set()
            async for change in changes:
                tell(change)

    task = asyncio.create_task(listen())
    await begun.wait()
    # The first conversation it hears of shows that it listens.
    probe = await host.new_session(title="probe")
    await until(lambda: any(each.root_id == probe for each in heard) or task.done())
    heard[:] = [each for each in heard if each.root_id != probe]
    try:
        yield heard
    finally:
        task.cancel()
        await asyncio.wait([task])


def test_a_turn_its_ask_and_its_end_are_told(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        async with a_host(db, [hold]) as host, listening(host) as heard:
            await host.send("s", "go")
            await hold.reached.wait()
            await until(lambda: any(each.state == "running" for each in heard))
            await host.send("s", "next")
            await until(lambda: heard[-1].waiting == 1)
            hold.opened.set()
            await until_turns_end(host, "s", 2)
            await until(lambda: (heard[-1].state, heard[-1].waiting) == ("idle", 0))
            assert {each.root_id for each in heard} == {"s"}

    wait(scenario())


def test_titles_pins_the_archive_and_deletions_are_told(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with a_host(db) as host, listening(host) as heard:
            await host.new_session(session_id="s")
            await until(lambda: len(heard) == 1)
            await host.records.rename("s", "trip")
            await until(lambda: heard[-1].title == "trip")
            await host.records.pin("s", pinned=True)
            await until(lambda: heard[-1].pinned)
            await host.records.archive("s", archived=True)
            await until(lambda: heard[-1].archived)
            await host.delete("s")
            await until(lambda: heard[-1].deleted)
            assert [each.root_id for each in heard] == ["s"] * len(heard)
            assert sum(each.deleted for each in heard) == 1

    wait(scenario())


def test_what_another_process_does_is_heard_soon(store_url: str, db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        with SessionDB.open(store_url) as other:
            async with a_host(db) as host, listening(host) as heard:

                def last() -> ConversationStatus:
                    return [each for each in heard if each.root_id == "s"][-1]

                def tells(**fields: object) -> Callable[[], bool]:
                    return lambda: (
                        any(each.root_id == "s" for each in heard)
                        and all(getattr(last(), name) == value for name, value in fields.items())
                    )

                other.create_session("s", source="test")
                await until(tells(state="idle"))
                other.conversations.set_title("s", "theirs")
                await until(tells(title="theirs"))
                other.hold_session("s", "another process")
                turn = other.turns.open("s", {"role": "user", "content": "hm"})
                await until(tells(state="elsewhere", turn_id=turn.id))
                other.inbox.put("s", {"role": "user", "content": "more"})
                await until(tells(waiting=1))
                other.rotate("s", "child", [{"role": "user", "content": "summary"}], carry_from=0)
                await until(tells(session_id="child"))
                other.turns.complete(turn.id, {"role": "assistant", "content": "ok"})
                other.let_go_of_session("s", "another process")
                await until(tells(state="idle", waiting=1))
                other.delete_session("s", force=True)
                await until(tells(deleted=True))

    wait(scenario())


def test_a_listener_first_hears_what_is_not_idle(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        for name in ("idle", "waits", "unfinished"):
            db.create_session(name, source="test")
        db.inbox.put("waits", {"role": "user", "content": "hm"})
        db.turns.open("unfinished", {"role": "user", "content": "hm"})
        async with a_host(db) as host:
            first: dict[str, ConversationStatus] = {}
            async with aclosing(host.overview.changes()) as changes:
                while len(first) < 2:
                    change = await anext(changes)
                    first[change.root_id] = change
            assert first["waits"].waiting == 1
            assert first["unfinished"].state == "unfinished"

    wait(scenario())


def test_a_slow_listener_gets_the_newest_of_each_and_slows_nobody(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with a_host(db) as host, listening(host) as heard, aclosing(host.overview.changes()) as slow:
            first = asyncio.ensure_future(anext(slow))
            while not first.done():
                await host.new_session()
            for number in range(10):
                await host.new_session(session_id=f"s{number}")
                for title in ("a", "b", "c"):
                    await host.records.rename(f"s{number}", title)
                    # Each of them was told, so the slow one missed it.
                    told_of = (f"s{number}", title)
                    await until(lambda: told_of in [(each.root_id, each.title) for each in heard])  # noqa: B023
            unread: list[ConversationStatus] = []
            while not unread or unread[-1].root_id != "s9":
                unread.append(await anext(slow))
            told = [(each.root_id, each.title) for each in unread if each.root_id.startswith("s")]
            assert told == [(f"s{number}", "c") for number in range(10)]

    wait(scenario())


def test_the_open_ask_of_a_turn_is_counted(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async def question(context: ToolContext, _: dict[str, Any]) -> ToolResult:
            await context.person.answer("which?")
            return await echo().run(context, {})

        tool = replace(echo(), name="question", run=question)
        async with a_host(db, [Call("question"), "done"], tools=[tool]) as host, listening(host) as heard:
            await host.send("s", "go")
            await until(lambda: any(each.asking == 1 for each in heard))
            [ask] = await host.overview.asks("s")
            await host.answer("s", ask.ask_id, "this")
            await until_turns_end(host, "s")
            await until(lambda: (heard[-1].asking, heard[-1].state) == (0, "idle"))

    wait(scenario())


def test_listeners_end_with_the_host_and_nothing_looks_when_nobody_listens(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        host = a_host(db)
        async with host:
            await host.new_session(session_id="s")
            ending = asyncio.create_task(_to_the_end(host))
            async with listening(host):
                pass
            assert not ending.done()
        await asyncio.wait_for(ending, 5)

    wait(scenario())


def test_a_listener_that_begins_while_the_host_ends_ends_with_it(
    db: SessionDB, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        host = a_host(db)
        async with host:
            feed = host._conversations.changes  # noqa: SLF001
            read, reached, opened = feed._read_busy, asyncio.Event(), asyncio.Event()  # noqa: SLF001

            async def held() -> Collection[str]:
                reached.set()
                await opened.wait()
                return await read()

            monkeypatch.setattr(feed, "_read_busy", held)
            ending = asyncio.create_task(_to_the_end(host))
            await reached.wait()
        opened.set()
        await asyncio.wait_for(ending, 5)

    wait(scenario())


async def _to_the_end(host: SessionHost) -> None:
    async for _ in host.overview.changes():
        pass
