"""Reads text that belongs to a question from standard input, but does not wait for an empty pipe.

A file, or a pipe that ends, is read whole. A pipe that stays open and empty is common without a person: under
a scheduler, in a container, behind a supervisor.
"""

import os
import select
import stat
import sys

from holdfast.cli.closed_streams import ClosedInput

FIRST_WORD_SECONDS = 3.0
"""How long a pipe may stay empty before the question is sent without it."""
LEFT_OUT = "standard input is open and empty, so the question goes without it; --stdin waits for it"


def piped_text(*, wait: bool) -> str:
    """All of standard input, if it is a file or a pipe; unless `wait`, a pipe that stays empty is ignored."""
    if isinstance(sys.stdin, ClosedInput) or sys.stdin.isatty():
        return ""
    if not wait and not _has_data_within(FIRST_WORD_SECONDS):
        sys.stderr.write(f"{LEFT_OUT}\n")
        return ""
    return sys.stdin.read().replace("\r\n", "\n").strip()


def _has_data_within(seconds: float) -> bool:
    """Whether standard input has data, or its end, within so many seconds; a file always has."""
    descriptor = sys.stdin.fileno()
    kind = os.fstat(descriptor).st_mode
    if not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)):
        return True
    return bool(select.select([descriptor], [], [], seconds)[0])
