"""Child processes and pools that never outlive their test."""

import threading
from collections.abc import Iterator

import pytest

from holdfast.process import DaemonPool
from tests.process.child_process import Child, StartChild
from tests.process.pool_fixtures import LONG, OpenPool


@pytest.fixture
def start_child() -> Iterator[StartChild]:
    children: list[Child] = []

    def start(script: str) -> Child:
        children.append(Child(script))
        return children[-1]

    yield start
    for child in children:
        child.close()


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Work waits here; it is opened at the end, so that no thread outlives its test."""
    gate = threading.Event()
    yield gate
    gate.set()


@pytest.fixture
def open_pool(gate: threading.Event) -> Iterator[OpenPool]:
    pools: list[DaemonPool] = []

    def open_(workers: int = 1, backlog: int = 10) -> DaemonPool:
        pools.append(DaemonPool("tools", workers, backlog))
        return pools[-1]

    yield open_
    gate.set()
    for pool in pools:
        assert pool.close(LONG) == []
