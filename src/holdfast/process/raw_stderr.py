"""Writes to stderr while the process ends: without a Python lock, and without waiting for ever."""

import contextlib
import os
import select
import sys

STDERR = 2
WRITE_SECONDS = 1.0  # the wait for a reader that has stopped reading; the first such wait ends the call


def has_stderr() -> bool:
    """False when the process was started without stderr; descriptor 2 may then be any file."""
    return sys.__stderr__ is not None


def write_stderr(text: str) -> None:
    """Write as much as possible without waiting long for a reader that doesn't read."""
    if not has_stderr():
        return
    left = text.encode(errors="backslashreplace")
    with contextlib.suppress(OSError, ValueError):
        # A write of up to PIPE_BUF bytes never blocks when select has returned the descriptor.
        while left and select.select([], [STDERR], [], WRITE_SECONDS)[1]:
            left = left[os.write(STDERR, left[: select.PIPE_BUF]) :]
