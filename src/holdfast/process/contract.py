"""What the process layer hands to others: a pool's numbers, a stage's time, a stray cancellation.

Read this first, then `daemon_pool.py` and `off_loop.py` (blocking work), `shutdown_budget.py`,
`exit_watchdog.py` and `signals.py` (the end of the process).
"""

from dataclasses import dataclass

from holdfast.core.errors import HoldfastError


@dataclass(frozen=True, slots=True)
class PoolStats:
    """One consistent look at a pool.

    Every call ever handed to `submit` is in exactly one of `busy`, `waiting`, `completed`,
    `failed`, `cancelled` and `rejected`. A pool is saturated when `busy + waiting == capacity`.
    """

    workers: int
    busy: int
    waiting: int
    capacity: int
    completed: int
    failed: int
    cancelled: int
    rejected: int


@dataclass(frozen=True, slots=True)
class StageTime:
    """How long one stage of a shutdown took."""

    name: str
    seconds: float


class WorkCancelled(HoldfastError):
    """The work ended itself with asyncio's CancelledError; the awaiting task was not cancelled."""

    def __init__(self, work: str) -> None:
        super().__init__(f"{work} was cancelled from within")
        self.work = work
