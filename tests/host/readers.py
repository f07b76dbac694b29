"""A model that says what a test tells it, and a reader of what a host says of it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from holdfast.core.events import Event, TextDelta
from holdfast.host import SessionHost
from holdfast.models.contract import Finished, ModelPiece, ModelRequest, TextPiece
from holdfast.testing import ScriptedModel


class Dictated(ScriptedModel):
    """Says word for word what the test tells it; None ends the answer."""

    def __init__(self) -> None:
        super().__init__()
        self.words: asyncio.Queue[str | None] = asyncio.Queue()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        del request
        while (word := await self.words.get()) is not None:
            yield TextPiece(word)
        yield Finished("stop", None)


class Follower:
    """Reads a session's events at a host."""

    def __init__(self, host: SessionHost) -> None:
        self.events: list[Event] = []
        self._task = asyncio.create_task(self._read(host))

    async def _read(self, host: SessionHost) -> None:
        async with aclosing(host.events("s")) as stream:
            async for numbered in stream:
                self.events.append(numbered.event)

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, TextDelta))

    def has(self, kind: type[Event]) -> bool:
        return any(isinstance(event, kind) for event in self.events)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
