"""What is saved of an answer while it streams: a save that goes wrong costs the turn nothing."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, TypeVar

import pytest

from holdfast import Agent, SessionDB
from holdfast.core.clock import SystemClock
from holdfast.core.errors import OutcomeUnknown, StoreBusy, StoreFailure
from holdfast.models.contract import Finished, ModelPiece, ModelRequest, TextPiece
from holdfast.sessions import Transaction
from holdfast.sessions.contract import Engine
from holdfast.sessions.sqlite import SqliteEngine
from holdfast.testing import ScriptedModel
from holdfast.testing.faults import EngineProxy, name_of
from tests.agent.agent_fixtures import until

T = TypeVar("T")
Wait = Callable[[Awaitable[Any]], Any]


class UnsavedOnce(EngineProxy):
    """An engine that fails the first save of a partial answer."""

    def __init__(self, engine: Engine, failure: StoreFailure) -> None:
        super().__init__(engine)
        self.saves = 0
        self._failure = failure

    def changed(self, work: Callable[[Transaction], T]) -> Callable[[Transaction], T]:
        if name_of(work) == "save_partial":
            self.saves += 1
            if self.saves == 1:
                raise self._failure
        return work


class Waiting(ScriptedModel):
    """Goes on with its answer once something is the case."""

    def __init__(self, condition: Callable[[], bool]) -> None:
        super().__init__()
        self._condition = condition

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        yield TextPiece("one ")
        await until(self._condition)
        yield TextPiece("two")
        yield Finished("stop", None)


@pytest.mark.parametrize(
    "failure",
    [OutcomeUnknown("the store", "it broke"), StoreBusy("the store", 5.0)],
    ids=lambda each: type(each).__name__,
)
def test_an_answer_goes_on_when_a_save_of_its_beginning_fails(wait: Wait, failure: StoreFailure) -> None:
    engine = UnsavedOnce(SqliteEngine(":memory:", clock=SystemClock(), patience=5.0), failure)

    async def scenario() -> None:
        with SessionDB.on(engine) as db:
            agent = Agent(Waiting(lambda: engine.saves > 1), db, "s")
            assert (await agent.run("go")).final_response == "one two"
            await agent.close()

    wait(scenario())
