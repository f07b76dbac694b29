"""Prints results: to standard output, cleaned of whatever could command the terminal; or to a new file."""

import json
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from holdfast.cli.clean_text import clean
from holdfast.core.errors import InvalidInput


def show(text: str = "") -> None:
    """One result, as lines."""
    sys.stdout.write(f"{clean(text)}\n")


def show_json(value: Any) -> None:  # noqa: ANN401 - any JSON
    """One result, for programs."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def write_lines(target: str | Path, lines: Iterable[str]) -> Path:
    """A result into a new file; one that exists is never overwritten."""
    path = Path(target).expanduser()
    try:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)
    except OSError as cause:
        raise InvalidInput(f"{path} can't be written: {cause.strerror}") from cause
    return path


def width() -> int:
    """How wide a line may be; a pipe takes long ones."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 200
