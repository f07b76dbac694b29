"""Owns writing to stderr when nothing can be trusted any more: no Python lock, no endless wait."""

import contextlib
import os
import select
import sys

STDERR = 2
PATIENCE = 1.0  # for a reader that has stopped reading; per call, since writing ends at the first


def has_stderr() -> bool:
    """False when the process was started without one; descriptor 2 may then be any file."""
    return sys.__stderr__ is not None


def write_stderr(text: str) -> None:
    """Write what can be written without waiting for a reader that doesn't read."""
    if not has_stderr():
        return
    left = text.encode(errors="backslashreplace")
    with contextlib.suppress(OSError, ValueError):
        # Up to PIPE_BUF bytes never block once select has said "ready".
        while left and select.select([], [STDERR], [], PATIENCE)[1]:
            left = left[os.write(STDERR, left[: select.PIPE_BUF]) :]
