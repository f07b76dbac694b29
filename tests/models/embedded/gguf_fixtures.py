"""Ways to speak with a model, and to look at the process that runs it."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from holdfast.core.contract import Message
from holdfast.models.contract import (
    Finished,
    Model,
    ModelPiece,
    ModelRequest,
    ModelTraits,
    TextPiece,
    ToolCallPiece,
    ToolSchema,
)
from holdfast.models.gguf import GgufModel, PromptStyle
from holdfast.models.gguf.worker_handle import RuntimeSpec

DEADLINE = 60.0
MOST = 1500


def asking(text: str, *, most: int | None = 40, tools: Sequence[ToolSchema] = ()) -> ModelRequest:
    said: list[Message] = [{"role": "user", "content": text}]
    return ModelRequest(system="", messages=said, tools=tools, max_output_tokens=most)


def endless_model(weights: Path) -> GgufModel:
    """The same weights, but no answer ends before its limit."""
    traits = ModelTraits(name="endless", context_window=4096, calls_tools=False)
    return GgufModel(RuntimeSpec(weights, 4096, 1), traits, PromptStyle(sampling={"ignore_eos": True}))


async def answer(model: Model, request: ModelRequest) -> list[ModelPiece]:
    return [piece async for piece in model.stream(request)]


def text_of(pieces: Sequence[ModelPiece]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, TextPiece))


def end_of(pieces: Sequence[ModelPiece]) -> Finished:
    end = pieces[-1]
    assert isinstance(end, Finished)
    return end


def calls_of(pieces: Sequence[ModelPiece]) -> list[tuple[str, str, str]]:
    """The id, name and arguments of each call, put together."""
    calls: dict[int, tuple[str, str, str]] = {}
    for piece in pieces:
        if isinstance(piece, ToolCallPiece):
            call_id, name, arguments = calls.get(piece.index, ("", "", ""))
            calls[piece.index] = (call_id + piece.id, name + piece.name, arguments + piece.arguments)
    return list(calls.values())


async def first_pieces(stream: AsyncGenerator[ModelPiece, None], count: int) -> list[ModelPiece]:
    return [await anext(stream) for _ in range(count)]


def closed(model: Model) -> None:
    asyncio.run(model.close())


def workers(parent: int | None = None) -> list[int]:
    """The processes that run a model for `parent`."""
    parent = parent or os.getpid()
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            stat = (folder / "stat").read_text()
            is_child = int(stat.rpartition(")")[2].split()[1]) == parent
            if is_child and b"worker.py" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


def is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition under a deadline; the loop goes on meanwhile."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=0.01)
