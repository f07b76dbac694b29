"""The limit of open files and sockets, and a reserve of them for the store and for tools.

A process starts with a soft limit, usually 1,024, because some programs use `select()`. Holdfast does not use
it, so the command raises the soft limit to the hard one. The kernel gives out the lowest free descriptor, so
the number of a new descriptor shows how many are left. Connections from outside must leave the reserve free.
"""

import contextlib
import resource
from collections.abc import Sequence
from functools import cache

MIN_RESERVE, MAX_RESERVE = 96, 1024
UNLIMITED = 1 << 20
"""The soft limit to ask for where the hard limit is infinite."""


def open_files_limit() -> int:
    """How many files may be open at once."""
    soft = _soft_limit()
    return UNLIMITED if soft == resource.RLIM_INFINITY else soft


def raise_open_files_limit() -> None:
    """Raise the soft limit to the hard one. Call it at the start of a program."""
    _original_limit()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = UNLIMITED if hard == resource.RLIM_INFINITY else hard
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    # A sandbox may forbid it; the functions below use the limit that is in force.
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def with_original_limit(command: Sequence[str]) -> list[str]:
    """The command with the original soft limit, because its program may use `select()`."""
    given = _original_limit()
    if given == _soft_limit():
        return list(command)
    # Code between fork and exec is unsafe in a program with threads, and after exec it is too late.
    return ["/bin/sh", "-c", 'ulimit -S -n "$0"; exec "$@"', str(given), *command]


def _soft_limit() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


@cache
def _original_limit() -> int:
    """The soft limit of this process before it was raised; read once, in whichever thread asks first."""
    return _soft_limit()


def reserve() -> int:
    """How many descriptors connections from outside must leave free."""
    return max(MIN_RESERVE, min(MAX_RESERVE, open_files_limit() // 4))


def is_scarce(descriptor: int, share: float = 1.0) -> bool:
    """Whether a new descriptor with this number already uses this share of the reserve."""
    return descriptor >= open_files_limit() - reserve() * share
