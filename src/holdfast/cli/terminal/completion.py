"""Completes slash commands while they are typed, and file paths on Tab."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document


class ChatCompleter(Completer):
    """Commands at the beginning of the line, paths anywhere else."""

    def __init__(self, commands: Mapping[str, str]) -> None:
        self._commands = commands
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        if before.startswith("/") and "\n" not in before and " " not in before and "/" not in before[1:]:
            yield from self._named(before[1:])
        elif complete_event.completion_requested:
            word = document.get_word_before_cursor(WORD=True)
            at = word.removeprefix("@")
            yield from self._paths.get_completions(Document(at, len(at)), complete_event)

    def _named(self, begun: str) -> Iterable[Completion]:
        for name, about in self._commands.items():
            if name.startswith(begun):
                yield Completion(name, start_position=-len(begun), display=f"/{name}", display_meta=about)


def history_file(folder: Path) -> Path:
    """The file of typed lines for the arrow keys; only its owner may read it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "history"
    path.touch(mode=0o600)
    return path
