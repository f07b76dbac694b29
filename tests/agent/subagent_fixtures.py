"""Agents with subagents in tests: a model for several conversations, one that hangs, and time that leaps."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from holdfast import Agent, SessionDB
from holdfast.agent import AgentOptions
from holdfast.agent.delegation import Offer, delegate_tool
from holdfast.core.events import Event
from holdfast.models.contract import Model, ModelPiece, ModelRequest, ModelTraits, TextPiece
from holdfast.testing import Call, ScriptedModel
from holdfast.tools.contract import Tool
from tests.agent.agent_fixtures import Hold

T = TypeVar("T")


class ModelByConversation:
    """Plays each conversation its own part, which is found by the first line of its first message."""

    def __init__(self, parts: Mapping[str, Model | Sequence[Any]], context_window: int = 128_000) -> None:
        self.parts = {
            opening: ScriptedModel(part) if isinstance(part, Sequence) else part
            for opening, part in parts.items()
        }
        self.traits = ModelTraits("cast", context_window)

    def requests(self, opening: str) -> list[ModelRequest]:
        part = self.parts[opening]
        assert isinstance(part, ScriptedModel)
        return part.requests

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        opening = str(request.messages[0]["content"]).splitlines()[0]
        async for piece in self.parts[opening].stream(request):
            yield piece

    async def close(self) -> None:
        pass


class HangingModel(ScriptedModel):
    """Says some words and then never ends; a stubborn one doesn't even when it is cancelled."""

    def __init__(self, words: str = "Half an answer", *, stubborn: bool = False) -> None:
        super().__init__()
        self.words = words
        self.hold = Hold()
        self.stubborn = stubborn

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        self.requests.append(request)
        yield TextPiece(self.words)
        while True:
            with suppress(*[asyncio.CancelledError] if self.stubborn else []):
                await self.hold()
                return


def delegating(*tasks: str | Mapping[str, Any]) -> Call:
    """A call of `delegate` with these tasks."""
    return Call("delegate", {"tasks": [{"task": task} if isinstance(task, str) else task for task in tasks]})


def parent_of(
    model: Model,
    db: SessionDB,
    tools: Sequence[Tool] = (),
    options: AgentOptions | None = None,
    **terms: Any,  # noqa: ANN401 - the rest of the offer
) -> Agent:
    """An agent in the session `s` that can delegate."""
    chosen = options or AgentOptions()
    offer = Offer(model, db, tools, chosen, **terms)
    return Agent(model, db, "s", offer.memory, [*tools, delegate_tool(offer)], chosen)


def result_of(db: SessionDB, session_id: str = "s") -> str:
    """What the model read as the result of its only tool call."""
    (result,) = [message for message in db.get_messages(session_id) if message["role"] == "tool"]
    return str(result["content"])


async def events_of(agent: Agent, text: str) -> list[Event]:
    return [event async for event in agent.stream(text)]


async def all_ended() -> None:
    """Wait until no subagent and no review is left; their records are closed then."""
    while left := [task for task in asyncio.all_tasks() if task.get_name() in ("subagent", "review")]:
        await asyncio.wait(left)


class LeapingLoop(asyncio.SelectorEventLoop):
    """A loop whose time can be moved on."""

    leapt = 0.0

    def time(self) -> float:
        return super().time() + self.leapt


def leap(seconds: float) -> None:
    """Let so much time pass at once for every timer of the running loop."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, LeapingLoop)
    loop.leapt += seconds


def leaping(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in which time may leap."""
    with asyncio.Runner(loop_factory=LeapingLoop) as runner:
        return runner.run(work)
