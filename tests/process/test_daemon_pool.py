"""Work on daemon threads: bounded, counted, cancellable, and never joined at exit."""

import concurrent.futures
import contextvars
import functools
import gc
import threading
import weakref
from collections.abc import Callable

import pytest

from holdfast.core.errors import PoolClosed, PoolSaturated, Retryable
from holdfast.process import DaemonPool
from tests.process.child_process import StartChild
from tests.process.pool_fixtures import LONG, OpenPool, ProcessDied, accounted


def occupy(pool: DaemonPool, gate: threading.Event) -> concurrent.futures.Future[bool]:
    """Keep one worker busy until the gate opens."""
    begun = threading.Event()

    def wedge() -> bool:
        begun.set()
        return gate.wait(LONG)

    future = pool.submit(wedge)
    assert begun.wait(LONG)
    return future


def fail(failure: BaseException) -> None:
    raise failure


@pytest.mark.clause("X1")
def test_work_runs_on_a_named_daemon_thread(open_pool: OpenPool) -> None:
    thread = open_pool().submit(threading.current_thread).result(LONG)
    assert thread.name == "tools-1"
    assert thread.daemon


@pytest.mark.clause("X1")
def test_a_wedged_worker_does_not_keep_the_interpreter_alive(start_child: StartChild) -> None:
    child = start_child("""
        import threading
        from holdfast.process import DaemonPool

        pool = DaemonPool("tools", workers=2, backlog=5)
        begun = threading.Barrier(3)
        def wedge():
            begun.wait()
            lock = threading.Lock()
            with lock:
                lock.acquire()
        for _ in range(5):
            pool.submit(wedge)
        begun.wait()
        print(pool.close(0), flush=True)
    """)
    assert child.line() == "['tools-1: __main__.wedge', 'tools-2: __main__.wedge']"
    assert child.end() == (0, "", "")


@pytest.mark.clause("X1")
def test_work_handed_over_during_exit_is_done_or_refused_at_once(start_child: StartChild) -> None:
    child = start_child("""
        import atexit
        from holdfast.core.errors import PoolSaturated
        from holdfast.process import DaemonPool

        def late():
            for pool in (fresh, used):
                try:
                    print(pool.submit(lambda: "done").result(10))
                except PoolSaturated:
                    print("refused")
        fresh, used = DaemonPool("fresh", 1, 1), DaemonPool("used", 2, 1)
        used.submit(print, "ready").result(10)
        atexit.register(late)
    """)
    assert child.line() == "ready"
    # Python 3.12 starts no threads at this point; a worker that lives still takes work.
    assert child.line() in {"done", "refused"}
    assert child.end() == (0, "done\n", "")


def test_no_thread_exists_before_the_first_call_and_no_more_than_needed(
    open_pool: OpenPool, gate: threading.Event
) -> None:
    def names() -> set[str]:
        return {thread.name for thread in threading.enumerate() if "tools" in thread.name}

    pool = open_pool(workers=3)
    assert names() == set()
    pool.submit(int).result(LONG)
    pool.submit(int).result(LONG)
    assert names() == {"tools-1"}
    occupy(pool, gate)
    occupy(pool, gate)
    assert names() == {"tools-1", "tools-2"}
    gate.set()
    pool.close(LONG)
    assert names() == set()


@pytest.mark.parametrize("failure", [ValueError("no"), SystemExit(3), ProcessDied()])
def test_whatever_work_raises_ends_up_in_its_future_and_the_worker_goes_on(
    open_pool: OpenPool, failure: BaseException
) -> None:
    pool = open_pool()
    with pytest.raises(type(failure)) as raised:
        pool.submit(fail, failure).result(LONG)
    assert raised.value is failure
    assert pool.submit(threading.current_thread).result(LONG).name == "tools-1"
    assert (pool.stats().failed, pool.stats().completed) == (1, 1)


def test_a_done_callback_that_raises_does_not_end_the_worker(
    open_pool: OpenPool, gate: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    pool = open_pool()
    occupy(pool, gate).add_done_callback(lambda _: fail(ProcessDied()))
    gate.set()
    assert pool.submit(threading.current_thread).result(LONG).name == "tools-1"
    assert [record.message for record in caplog.records] == ["pool.callback_failed"]


def test_a_full_pool_refuses_at_once_and_says_that_later_may_succeed(
    open_pool: OpenPool, gate: threading.Event
) -> None:
    pool = open_pool(workers=2, backlog=1)
    accepted = [pool.submit(gate.wait, LONG) for _ in range(3)]
    with pytest.raises(PoolSaturated, match="tools") as raised:
        pool.submit(int)
    assert isinstance(raised.value, Retryable)
    assert accounted(pool.stats()) == 4
    assert pool.stats().rejected == 1
    assert pool.stats().busy + pool.stats().waiting == pool.stats().capacity == 3
    gate.set()
    assert [future.result(LONG) for future in accepted] == [True] * 3
    assert pool.submit(int).result(LONG) == 0


def test_a_pool_without_backlog_accepts_as_many_calls_as_it_has_workers(
    open_pool: OpenPool, gate: threading.Event
) -> None:
    pool = open_pool(workers=2, backlog=0)
    occupy(pool, gate)
    occupy(pool, gate)
    with pytest.raises(PoolSaturated):
        pool.submit(int)


def test_a_cancelled_call_never_runs_and_gives_its_place_back_at_once(
    open_pool: OpenPool, gate: threading.Event
) -> None:
    pool = open_pool(workers=1, backlog=1)
    occupy(pool, gate)
    ran: list[str] = []
    cancelled = pool.submit(ran.append, "cancelled")
    assert cancelled.cancel()
    kept = pool.submit(ran.append, "kept")  # the only worker is still wedged
    gate.set()
    kept.result(LONG)
    assert ran == ["kept"]
    assert pool.stats().cancelled == 1


def test_those_who_wait_for_a_cancelled_call_are_told(open_pool: OpenPool, gate: threading.Event) -> None:
    pool = open_pool()
    occupy(pool, gate)
    futures = [pool.submit(int), pool.submit(int)]
    futures[0].cancel()
    assert concurrent.futures.wait(futures[:1], LONG).done == {futures[0]}
    pool.close(0)
    assert concurrent.futures.wait(futures, LONG).done == set(futures)


def test_running_work_is_not_cancelled(open_pool: OpenPool, gate: threading.Event) -> None:
    future = occupy(open_pool(), gate)
    assert not future.cancel()
    gate.set()
    assert future.result(LONG)


def test_close_cancels_what_has_not_begun_and_names_what_still_runs(
    open_pool: OpenPool, gate: threading.Event
) -> None:
    pool = open_pool()
    running = occupy(pool, gate)
    waiting = pool.submit(int)
    expected = [f"tools-1: {__name__}.occupy.<locals>.wedge"]
    assert pool.running() == expected
    assert pool.close(0.01) == expected
    assert waiting.cancelled()
    with pytest.raises(PoolClosed, match="tools"):
        pool.submit(int)
    assert pool.close(-1) == expected
    gate.set()
    assert pool.close(LONG) == []
    assert pool.close(LONG) == []
    assert running.result(0)
    stats = pool.stats()
    assert (stats.completed, stats.cancelled, stats.rejected) == (1, 1, 1)


def test_close_waits_for_running_work(open_pool: OpenPool, gate: threading.Event) -> None:
    pool = open_pool()
    running = occupy(pool, gate)
    opener = threading.Timer(0.05, gate.set)
    opener.start()
    assert pool.close(LONG) == []
    assert running.done()


def test_a_pool_that_was_never_used_closes_at_once(open_pool: OpenPool) -> None:
    assert open_pool().close(LONG) == []


def test_work_may_close_its_own_pool(open_pool: OpenPool) -> None:
    pool = open_pool()
    assert pool.submit(pool.close, LONG).result(LONG) == []


def test_work_sees_the_context_variables_of_its_caller_and_cannot_change_them(
    open_pool: OpenPool,
) -> None:
    variable = contextvars.ContextVar("variable", default="default")
    pool = open_pool()
    token = variable.set("caller's")
    assert pool.submit(variable.get).result(LONG) == "caller's"
    pool.submit(variable.set, "worker's").result(LONG)
    assert variable.get() == "caller's"
    variable.reset(token)
    assert pool.submit(variable.get).result(LONG) == "default"


class Payload:
    def echo(self) -> "Payload":
        return self

    def fail(self) -> None:
        raise ValueError(self)


@pytest.mark.parametrize("work", [Payload.echo, Payload.fail])
def test_an_idle_worker_keeps_nothing_of_finished_work(
    open_pool: OpenPool, work: Callable[[Payload], object]
) -> None:
    pool = open_pool()
    payload = Payload()
    left = weakref.ref(payload)
    gone = threading.Event()
    weakref.finalize(payload, gone.set)
    gc.disable()  # nothing may depend on the cycle collector
    try:
        future = pool.submit(work, payload)
        concurrent.futures.wait([future], LONG)
        del payload, future
        assert gone.wait(LONG)
    finally:
        gc.enable()
    assert left() is None


def test_reports_name_partials_and_callable_objects(open_pool: OpenPool, gate: threading.Event) -> None:
    class Wait:
        def __call__(self, begun: threading.Event) -> None:
            begun.set()
            gate.wait(LONG)

    pool = open_pool()
    begun = threading.Event()
    pool.submit(functools.partial(Wait(), begun))
    assert begun.wait(LONG)
    assert pool.running()[0].endswith("<locals>.Wait")


def test_a_forked_child_finds_the_pool_closed_instead_of_hanging(start_child: StartChild) -> None:
    child = start_child("""
        import os, threading
        from holdfast.core.errors import PoolClosed
        from holdfast.process import DaemonPool

        pool = DaemonPool("tools", 1, 5)
        gate = threading.Event()
        running, waiting = pool.submit(gate.wait), pool.submit(int)
        if os.fork() == 0:
            try:
                pool.submit(int)
            except PoolClosed as refusal:
                print(refusal, pool.close(10), pool.running(), pool.stats().busy, flush=True)
            waiting.cancel()
            os._exit(0)
        os.wait()
        gate.set()
        print(waiting.result(10), pool.close(10))
    """)
    code, out, err = child.end()
    assert (code, err) == (0, "")
    assert out == "tools is closed and takes no more work [] [] 0\n0 []\n"


@pytest.mark.parametrize(
    ("workers", "backlog", "problem"), [(0, 1, "at least one worker"), (1, -1, "backlog of -1")]
)
def test_impossible_sizes_are_refused_by_name(workers: int, backlog: int, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        DaemonPool("tools", workers, backlog)
