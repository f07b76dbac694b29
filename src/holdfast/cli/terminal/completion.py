"""Completes slash commands while they are typed, and file paths on Tab."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter, WordCompleter
from prompt_toolkit.document import Document


class ChatCompleter(Completer):
    """Commands at the beginning of the line, paths anywhere else."""

    def __init__(self, commands: Mapping[str, str], folder: Path) -> None:
        """Relative paths are those of `folder`."""
        shown = {name: f"/{name}" for name in commands}
        self._names = WordCompleter(list(commands), meta_dict=commands, display_dict=shown)
        self._paths = PathCompleter(get_paths=lambda: [str(folder)], expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        if before.startswith("/") and "\n" not in before and " " not in before and "/" not in before[1:]:
            yield from self._names.get_completions(Document(before[1:]), complete_event)
        elif complete_event.completion_requested:
            word = document.get_word_before_cursor(WORD=True)
            at = word.removeprefix("@")
            yield from self._paths.get_completions(Document(at, len(at)), complete_event)


def history_file(folder: Path) -> Path:
    """The file of typed lines for the arrow keys; only its owner may read it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "history"
    path.touch(mode=0o600)
    return path
