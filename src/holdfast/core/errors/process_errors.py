"""Errors of thread pools."""

from holdfast.core.errors.groups import HoldfastError, Retryable


class PoolSaturated(Retryable):
    """Every worker is busy and the backlog is full; nothing was queued."""

    def __init__(self, pool: str, workers: int, backlog: int) -> None:
        super().__init__(
            f"{pool} has all {workers} workers busy and {backlog} calls waiting; try again later"
        )
        self.pool = pool


class PoolClosed(HoldfastError):
    """The pool takes no more work; nothing was queued."""

    def __init__(self, pool: str) -> None:
        super().__init__(f"{pool} is closed and takes no more work")
        self.pool = pool
