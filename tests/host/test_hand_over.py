"""A server that is told to stop leaves its turns open, and another one goes on with them."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.host import HostOptions, SessionHost
from holdfast.models.contract import ModelRequest
from holdfast.sessions import SessionDB
from holdfast.testing import Call, ScriptedModel
from tests.agent.agent_fixtures import Hold, a_tool, until
from tests.host.host_fixtures import a_host
from tests.host.transcripts import said

Wait = Callable[[Awaitable[Any]], Any]
RESUMES = HostOptions(poll_seconds=0.02, shutdown_seconds=5.0, after_crash="resume")
RESTARTS = 5


class Halfway(ScriptedModel):
    """Stops after the first piece of an answer."""

    def __init__(self, hold: Hold) -> None:
        super().__init__(["half whole"])
        self._hold = hold

    async def stream(self, request: ModelRequest) -> Any:  # noqa: ANN401
        async for piece in super().stream(request):
            yield piece
            await self._hold()


def a_halfway_host(db: SessionDB, hold: Hold) -> SessionHost:
    return a_host(db, lambda _: Halfway(hold), options=RESUMES)


@pytest.mark.clause("I7")
def test_a_turn_in_mid_answer_moves_from_server_to_server_as_often_as_they_are_restarted(
    store_url: str, wait: Wait
) -> None:
    cut_off: set[str] = set()

    async def scenario() -> None:
        for number in range(RESTARTS):
            hold, db = Hold(), SessionDB.open(store_url)
            async with a_halfway_host(db, hold) as host:
                if number == 0:
                    await host.send("s", "go")
                await hold.reached.wait()
                assert await host.close() == []
            with SessionDB.open(store_url) as db:
                [turn] = db.turns.unfinished()
                cut_off.add(turn.id)
                assert db.session_holder("s") is None, "it is free at once"
                assert db.turns.resume_count(turn.id) == 0
        db = SessionDB.open(store_url)
        async with a_host(db, ["the whole answer"], options=RESUMES):
            await until(lambda: not db.turns.unfinished())
            states = [getattr(db.turns.get(each), "state", None) for each in sorted(cut_off)]
            assert states == ["completed"], "one turn, cut off each time"
            assert said(db, "s")[-1] == ("assistant", "the whole answer")

    wait(scenario())


@pytest.mark.clause("I7", "D10")
def test_a_call_that_runs_ends_first_and_its_turn_goes_on_elsewhere_from_the_result(
    store_url: str, wait: Wait
) -> None:
    async def scenario() -> None:
        hold = Hold("done once")
        db = SessionDB.open(store_url)
        async with a_host(
            db, [[Call("hold", id="c")], "never asked"], tools=[hold.tool()], options=RESUMES
        ) as host:
            await host.send("s", "go")
            await hold.reached.wait()
            host.hand_over()
            await until(lambda: host._conversations.opened["s"].state == "closing")  # noqa: SLF001
            hold.opened.set()
            assert await host.close() == []
        db = SessionDB.open(store_url)
        again = Hold("done twice")
        async with a_host(db, ["the answer"], tools=[again.tool()], options=RESUMES):
            await until(lambda: not db.turns.unfinished())
            assert not again.reached.is_set()
            assert said(db, "s")[-2:] == [("tool", "done once"), ("assistant", "the answer")]

    wait(scenario())


@pytest.mark.slow
@pytest.mark.clause("I7", "D10")
def test_a_call_that_does_not_end_is_closed_with_a_word_and_not_run_again(store_url: str, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        db = SessionDB.open(store_url)
        async with a_host(db, [[Call("hold", id="c")]], tools=[hold.tool()], options=RESUMES) as host:
            await host.send("s", "go")
            await hold.reached.wait()
            await host.send("s", "and then this")
            assert await host.close() == []
        db = SessionDB.open(store_url)
        again = Hold()
        async with a_host(db, ["the next answer"], tools=[again.tool()], options=RESUMES):
            await until(lambda: said(db, "s")[-1] == ("assistant", "the next answer"))
            assert not again.reached.is_set()
            assert any("hold ran, which may have taken effect" in str(text) for _, text in said(db, "s"))

    wait(scenario())


@pytest.mark.clause("I7")
def test_a_message_that_is_accepted_while_turns_are_handed_over_runs_at_another_server(
    store_url: str, wait: Wait
) -> None:
    async def scenario() -> None:
        hold = Hold()
        with SessionDB.open(store_url) as here, SessionDB.open(store_url) as there:
            async with (
                a_host(here, lambda _: Halfway(hold), options=RESUMES) as host,
                a_host(there, ["one", "two"], options=RESUMES),
            ):
                await host.send("s", "first")
                await hold.reached.wait()
                host.hand_over()
                await host.send("s", "second")
                await until(
                    lambda: (
                        [text for role, text in said(there, "s") if role == "assistant"][-2:]
                        == ["one", "two"]
                    )
                )

    wait(scenario())


def test_where_nobody_resumes_a_turn_the_end_stops_it(store_url: str, wait: Wait) -> None:
    async def scenario() -> None:
        db = SessionDB.open(store_url)
        hold = Hold()
        asks = HostOptions(poll_seconds=0.02, after_crash="close")
        async with a_host(db, [hold], tools=[a_tool("unused", hold)], options=asks) as host:
            await host.send("s", "go")
            await hold.reached.wait()
            host.hand_over()
            await host.close()
        with SessionDB.open(store_url) as again:
            assert again.turns.unfinished() == []

    wait(scenario())
