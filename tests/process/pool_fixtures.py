"""What the tests of the pool share: a way to open one, and a count of its calls."""

from collections.abc import Callable

from holdfast.process import DaemonPool, PoolStats

LONG = 20.0  # a deadline, never reached

OpenPool = Callable[..., DaemonPool]


class ProcessDied(BaseException):
    pass


def accounted(stats: PoolStats) -> int:
    ended = stats.completed + stats.failed + stats.cancelled + stats.rejected
    return ended + stats.busy + stats.waiting
