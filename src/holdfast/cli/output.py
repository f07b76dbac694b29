"""Prints results: cleaned, to standard output, or to a new file."""

import json
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from holdfast.core.clean_text import clean
from holdfast.core.errors import InvalidInput


def show(text: str = "") -> None:
    """Print one result."""
    sys.stdout.write(f"{clean(text)}\n")


def show_json(value: Any) -> None:  # noqa: ANN401 - any JSON
    """Print one result as JSON."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def write_lines(target: str | Path, lines: Iterable[str]) -> Path:
    """Write lines to a new file; an existing file is never overwritten."""
    path = Path(target).expanduser()
    try:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)
    except OSError as cause:
        raise InvalidInput(f"{path} can't be written: {cause.strerror}") from cause
    return path


def width() -> int:
    """The width of a line; wide for a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 200
