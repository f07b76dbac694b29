"""Every call that a pool is handed ends exactly once, and is counted as what it came to."""

import concurrent.futures
import contextlib
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.errors import PoolSaturated
from holdfast.process import DaemonPool
from tests.process.pool_fixtures import LONG, OpenPool, ProcessDied, accounted


@pytest.mark.clause("X1")
@settings(deadline=None)  # a busy machine is no failure
@given(
    workers=st.integers(1, 3),
    backlog=st.integers(0, 3),
    steps=st.lists(st.sampled_from(["succeed", "fail", "finish oldest", "cancel newest"])),
    closes=st.booleans(),
)
def test_every_call_is_accounted_for_exactly_once_at_every_step(
    workers: int, backlog: int, steps: list[str], closes: bool
) -> None:
    pool = DaemonPool("tools", workers, backlog)
    held: list[tuple[threading.Event, concurrent.futures.Future[None]]] = []
    submitted = 0

    def work(gate: threading.Event, step: str) -> None:
        gate.wait(LONG)
        if step == "fail":
            raise ProcessDied

    for step in steps:
        if step == "finish oldest" and held:
            gate, future = held.pop(0)
            gate.set()
            concurrent.futures.wait([future], LONG)
        elif step == "cancel newest" and held:
            if held[-1][1].cancel():
                held.pop()
        elif step in {"succeed", "fail"}:
            submitted += 1
            full = len(held) == workers + backlog
            with pytest.raises(PoolSaturated) if full else contextlib.nullcontext():
                gate = threading.Event()
                held.append((gate, pool.submit(work, gate, step)))
        stats = pool.stats()
        assert accounted(stats) == submitted
        assert stats.busy + stats.waiting == len(held)
    if closes:
        pool.close(0)
    for gate, _ in held:
        gate.set()
    concurrent.futures.wait([future for _, future in held], LONG)
    assert pool.close(LONG) == []
    stats = pool.stats()
    assert stats.completed + stats.failed + stats.cancelled + stats.rejected == submitted


def test_many_threads_at_once_lose_and_double_no_call(open_pool: OpenPool) -> None:
    pool = open_pool(workers=4, backlog=8)
    kept: list[concurrent.futures.Future[None]] = []
    ran: list[int] = []
    refused: list[int] = []
    cancelled: list[int] = []

    def hand_over(numbers: range) -> None:
        for number in numbers:
            try:
                future = pool.submit(ran.append, number)
            except PoolSaturated:
                refused.append(number)
            else:
                kept.append(future)
                if number % 3 == 0 and future.cancel():
                    cancelled.append(number)

    callers = [
        threading.Thread(target=hand_over, args=(range(start, start + 500),)) for start in range(0, 4000, 500)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    concurrent.futures.wait(kept, LONG)
    assert sorted(ran + refused + cancelled) == list(range(4000))
    stats = pool.stats()
    assert (stats.completed, stats.rejected, stats.cancelled) == tuple(map(len, (ran, refused, cancelled)))
