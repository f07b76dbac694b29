"""Prints results: to standard output, cleaned of whatever could command the terminal."""

import json
import shutil
import sys
from typing import Any

from holdfast.cli.clean_text import clean


def show(text: str = "") -> None:
    """One result, as lines."""
    sys.stdout.write(f"{clean(text)}\n")


def show_json(value: Any) -> None:  # noqa: ANN401 - any JSON
    """One result, for programs."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def width() -> int:
    """How wide a line may be; a pipe takes long ones."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 200
