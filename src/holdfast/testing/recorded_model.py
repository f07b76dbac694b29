"""`RecordedModel`: records what a real model answers once, and plays it back from a file ever after.

    model = RecordedModel("exchange.json", real=await open_model("openai:gpt-5-mini"))

The first time there is no file: requests go to `real`, and each is written with its answer. From then on the
file is played and `real` is not asked. A request that differs from the recorded one raises
`RecordingDiffers`, which says where. Keys and tokens are masked before they are written.
"""

import json
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from holdfast.core.errors import HoldfastError, InvalidInput
from holdfast.core.secret import MASK
from holdfast.models.contract import (
    Finished,
    Model,
    ModelPiece,
    ModelRequest,
    ModelTraits,
    Prices,
    ReasoningPiece,
    Retrying,
    TextPiece,
    ToolCallPiece,
    Usage,
)

VERSION = 1
SECRETS = re.compile(
    r"\b(?:sk|pk|rk|ghp|gho|github_pat|xox[abp]|AKIA|AIza|hf|glpat)[-_A-Za-z0-9]{12,}"
    r"|(?<=Bearer )[-._~+/A-Za-z0-9]{8,}=*"
    r"|\beyJ[-_A-Za-z0-9]+\.[-_A-Za-z0-9]+\.[-_A-Za-z0-9]+"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
)
WORKSPACE = re.compile(r"^The workspace is .*$", re.MULTILINE)
SAME_WORKSPACE = "The workspace is here."
PIECES: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (TextPiece, ReasoningPiece, ToolCallPiece, Finished)
}


class RecordingDiffers(HoldfastError, AssertionError):
    """A request is not the one that was recorded."""


class RecordedModel:
    """Plays the file at `path`, or makes it with the answers of `real`. `secrets` are masked in it too."""

    def __init__(self, path: str | Path, real: Model | None = None, secrets: Sequence[str] = ()) -> None:
        self._path = Path(path)
        self._real = real
        self._secrets = [each for each in secrets if each]
        self.played = 0
        self._exchanges: list[dict[str, Any]] = []
        self.is_recording = not self._path.exists()
        if self.is_recording:
            if real is None:
                raise InvalidInput(
                    f"there is no recording {self._path}: give the model to record, "
                    "RecordedModel(path, real=…)"
                )
            self._traits = real.traits
        else:
            self._traits, self._exchanges = _read(self._path)

    @property
    def traits(self) -> ModelTraits:
        return self._traits

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        """The recorded answer; while recording, the real one."""
        asked = json.loads(self._masked(json.dumps(_as_json(request), ensure_ascii=False)))
        if self.is_recording and self._real is not None:
            pieces: list[ModelPiece] = []
            async with aclosing(self._real.stream(request)) as answer:
                async for piece in answer:
                    # All that came before a retry is void.
                    pieces = [] if isinstance(piece, Retrying) else [*pieces, piece]
                    yield piece
            self._write(asked, pieces)
        else:
            for piece in self._next(asked):
                yield piece

    async def close(self) -> None:
        if self._real is not None:
            await self._real.close()

    def _next(self, asked: dict[str, Any]) -> list[ModelPiece]:
        if self.played == len(self._exchanges):
            raise RecordingDiffers(
                f"{self._path} holds {self.played} requests, and this is one more. {_remedy(self._path)}"
            )
        recorded = self._exchanges[self.played]
        self.played += 1
        differences = list(_differences("request", recorded["request"], asked))
        if differences:
            shown = "\n  ".join(differences[:5])
            raise RecordingDiffers(
                f"request {self.played} differs from {self._path}:\n  {shown}\n{_remedy(self._path)}"
            )
        return [_piece(each) for each in recorded["answer"]]

    def _write(self, asked: dict[str, Any], pieces: Sequence[ModelPiece]) -> None:
        answer = [{"piece": type(each).__name__, **asdict(each)} for each in pieces]
        text = self._masked(json.dumps(answer, ensure_ascii=False))
        self._exchanges.append({"request": asked, "answer": json.loads(text)})
        whole = {"version": VERSION, "traits": asdict(self._traits), "exchanges": self._exchanges}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(whole, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

    def _masked(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(json.dumps(secret, ensure_ascii=False)[1:-1], MASK)
        return SECRETS.sub(MASK, text)


def _as_json(request: ModelRequest) -> dict[str, Any]:
    """What is compared. The conversation's id is another one in each run, and the folder on each machine."""
    return {
        "system": WORKSPACE.sub(SAME_WORKSPACE, request.system),
        "messages": list(request.messages),
        "tools": {each.name: dict(each.parameters) for each in request.tools},
    }


def _read(path: Path) -> tuple[ModelTraits, list[dict[str, Any]]]:
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
        if whole["version"] == VERSION:
            traits = {**whole["traits"], "prices": Prices(**whole["traits"]["prices"])}
            return ModelTraits(**traits), list(whole["exchanges"])
    except (OSError, ValueError, KeyError, TypeError) as cause:
        raise InvalidInput(f"{path} is no recording of a model: {cause!r:.200}. {_remedy(path)}") from cause
    raise InvalidInput(f"{path} is a recording of version {whole['version']}, not {VERSION}. {_remedy(path)}")


def _piece(recorded: dict[str, Any]) -> ModelPiece:
    kind, given = PIECES[recorded["piece"]], {**recorded}
    del given["piece"]
    if kind is Finished and given["usage"] is not None:
        given["usage"] = Usage(**given["usage"])
    piece: ModelPiece = kind(**given)
    return piece


def _differences(where: str, recorded: object, now: object) -> Iterator[str]:
    """Each place in which two JSON values differ."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        for key in [*recorded, *(each for each in now if each not in recorded)]:
            yield from _differences(f"{where}.{key}", recorded.get(key), now.get(key))
    elif isinstance(recorded, list) and isinstance(now, list):
        for index in range(max(len(recorded), len(now))):
            pair = [side[index] if index < len(side) else None for side in (recorded, now)]
            yield from _differences(f"{where}[{index}]", *pair)
    elif recorded != now:
        yield f"{where}: recorded {recorded!r:.200}, now {now!r:.200}"


def _remedy(path: Path) -> str:
    return f"When the change is meant, delete {path} and record again with real=…"
