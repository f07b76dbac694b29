"""A memory provider with a file for each turn, for processes that are killed while it forgets."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from holdfast.memory import CompletedTurn
from holdfast.memory.forgetting import ForgetReport, ForgetRequest
from holdfast.testing.providers import RecordingProvider


class FolderMemory(RecordingProvider):
    """Forgets one turn after another, so that it can be cut off in between."""

    def __init__(self, folder: Path) -> None:
        super().__init__("folder")
        self._folder = folder / "turns"

    def sync_turns(self, turns: Sequence[CompletedTurn]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        for turn in turns:
            self._file(turn.key).write_text(turn.user_content, encoding="utf-8")

    def forget_selected(self, request: ForgetRequest) -> ForgetReport:
        return ForgetReport(sum([self.delete(each) for each in request.turn_keys(self.name)]))

    def delete(self, key: str) -> bool:
        there = self._file(key).exists()
        self._file(key).unlink(missing_ok=True)
        return there

    def texts(self) -> list[str]:
        return sorted(each.read_text(encoding="utf-8") for each in self._folder.iterdir())

    def _file(self, key: str) -> Path:
        return self._folder / sha256(key.encode()).hexdigest()
