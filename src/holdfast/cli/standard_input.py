"""Text on standard input that goes with a question, without waiting for ever on a pipe that nobody writes to.

A file, or a pipe that ends, is read whole. A pipe that stays open and empty is common where no person is:
under a scheduler, in a container, behind a supervisor.
"""

import os
import select
import stat
import sys

FIRST_WORD_SECONDS = 3.0
"""How long a pipe may stay empty before a question that was given in words goes on without it."""
LEFT_OUT = "standard input is open and empty, so the question goes without it; --stdin waits for it"


def is_piped() -> bool:
    """Whether something may come on standard input; a process may be started without any."""
    return sys.stdin is not None and not sys.stdin.isatty()


def something_comes(seconds: float) -> bool:
    """Whether standard input has data, or its end, within so many seconds; a file always has."""
    descriptor = sys.stdin.fileno()
    kind = os.fstat(descriptor).st_mode
    if not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)):
        return True
    return bool(select.select([descriptor], [], [], seconds)[0])


def read_text() -> str:
    """All of standard input, to its end."""
    return sys.stdin.read().replace("\r\n", "\n").strip()
