"""Replaces standard streams that are closed at the start or can't be written.

Otherwise the next file to be opened would get the number of the closed stream: a database opened as number 1
would receive what is printed. Writing to standard error never fails, since the result matters more.
"""

import io
import os
import sys


class ClosedInput(io.StringIO):
    """Replaces a closed standard input: it ends at once."""

    def fileno(self) -> int:
        return 0


class _Diagnostics(io.FileIO):
    """Standard error that drops what can't be written."""

    def write(self, data: object) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError:
            return len(data)  # type: ignore[arg-type]


def replace_closed_streams() -> bool:
    """Replace closed streams; returns whether standard output was open."""
    has_output = sys.stdout is not None
    has_error = sys.stderr is not None
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it takes the lowest number that is free
    if sys.stdin is None:
        sys.stdin = ClosedInput()
    if not has_output:
        sys.stdout = _text(io.FileIO(1, "w", closefd=False))
    if not has_error or (type(sys.stderr) is io.TextIOWrapper and sys.stderr.fileno() == 2):  # noqa: PLR2004
        sys.stderr = _text(_Diagnostics(2, "w", closefd=False))
    return has_output


def _text(raw: io.FileIO) -> io.TextIOWrapper:
    return io.TextIOWrapper(raw, encoding="utf-8", errors="replace", write_through=True)
