"""Blocking work awaited from the event loop."""

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest

from holdfast.core.errors import PoolClosed, PoolSaturated
from holdfast.process import DaemonPool, WorkCancelled, off_loop
from tests.process.child_process import StartChild

LONG = 20.0  # a deadline, never reached


class Wedge:
    """Work that says when it has begun, and ends when it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.let_go = threading.Event()

    def __call__(self, failure: Exception | None = None) -> str:
        self.begun.set()
        self.let_go.wait(LONG)
        if failure is not None:
            raise failure
        return "done"


@pytest.fixture
def wedge() -> Iterator[Wedge]:
    wedge = Wedge()
    yield wedge
    wedge.let_go.set()


@pytest.fixture
def pool(wedge: Wedge) -> Iterator[DaemonPool]:
    pool = DaemonPool("blocking", workers=1, backlog=1)
    yield pool
    wedge.let_go.set()
    assert pool.close(LONG) == []


async def condition(holds: Callable[[], bool]) -> None:
    """Let the loop run until `holds`."""
    async with asyncio.timeout(LONG):
        while not holds():  # noqa: ASYNC110 - what is awaited happens on a plain thread
            await asyncio.sleep(0)  # noqa: TID251 - gives way once, waits for no time


def test_the_loop_goes_on_while_work_blocks(pool: DaemonPool, wedge: Wedge) -> None:
    async def main() -> str:
        work = asyncio.create_task(off_loop(pool, wedge))
        await condition(wedge.begun.is_set)
        wedge.let_go.set()
        return await work

    assert asyncio.run(main()) == "done"


def test_arguments_go_in_and_failures_come_out(pool: DaemonPool) -> None:
    async def main() -> None:
        assert await off_loop(pool, sorted, [1, 3, 2], reverse=True) == [3, 2, 1]
        with pytest.raises(ZeroDivisionError):
            await off_loop(pool, divmod, 1, 0)

    asyncio.run(main())


def test_a_saturated_pool_is_the_awaiting_codes_to_handle(pool: DaemonPool, wedge: Wedge) -> None:
    async def main() -> None:
        waiting = [asyncio.create_task(off_loop(pool, wedge)) for _ in range(2)]
        await condition(wedge.begun.is_set)
        with pytest.raises(PoolSaturated):
            await off_loop(pool, int)
        wedge.let_go.set()
        await asyncio.gather(*waiting)

    asyncio.run(main())


def test_cancelling_work_that_has_not_begun_keeps_it_from_beginning(pool: DaemonPool, wedge: Wedge) -> None:
    ran: list[int] = []

    async def main() -> None:
        running = asyncio.create_task(off_loop(pool, wedge))
        await condition(wedge.begun.is_set)
        waiting = asyncio.create_task(off_loop(pool, ran.append, 1))
        await condition(lambda: pool.stats().waiting == 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert pool.stats().waiting == 0
        wedge.let_go.set()
        await running

    asyncio.run(main())
    pool.close(LONG)
    assert ran == []


def test_cancelling_running_work_returns_at_once_and_its_later_failure_is_logged(
    pool: DaemonPool, wedge: Wedge, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        task = asyncio.create_task(off_loop(pool, wedge, ValueError("too late")))
        await condition(wedge.begun.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not wedge.let_go.is_set()

    asyncio.run(main())
    assert caplog.records == []
    wedge.let_go.set()
    pool.close(LONG)
    assert [record.message for record in caplog.records] == ["off_loop.abandoned_work_failed"]
    assert "in __call__" in caplog.text
    assert "ValueError: too late" in caplog.text


def test_a_failure_that_cancellation_overtook_is_logged_too(
    pool: DaemonPool, wedge: Wedge, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        task = asyncio.create_task(off_loop(pool, wedge, ValueError("lost?")))
        await condition(wedge.begun.is_set)
        wedge.let_go.set()
        pool.close(LONG)  # the work has ended; the loop has not heard of it yet
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert "ValueError: lost?" in caplog.text


def test_abandoned_work_that_succeeds_is_not_worth_a_word(
    pool: DaemonPool, wedge: Wedge, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        task = asyncio.create_task(off_loop(pool, wedge))
        await condition(wedge.begun.is_set)
        task.cancel()

    asyncio.run(main())
    wedge.let_go.set()
    pool.close(LONG)
    assert caplog.records == []


def test_a_pool_that_closes_is_not_mistaken_for_the_cancellation_of_the_task(
    pool: DaemonPool, wedge: Wedge
) -> None:
    async def main() -> None:
        running = asyncio.create_task(off_loop(pool, wedge))
        await condition(wedge.begun.is_set)
        waiting = asyncio.create_task(off_loop(pool, int))
        await condition(lambda: pool.stats().waiting == 1)
        pool.close(0)
        with pytest.raises(PoolClosed):
            await waiting
        wedge.let_go.set()
        assert await running == "done"

    asyncio.run(main())


def raise_(failure: BaseException) -> None:
    raise failure


@pytest.mark.parametrize(
    ("failure", "arrives"),
    [(asyncio.CancelledError(), WorkCancelled), (StopIteration(), RuntimeError)],
)
def test_failures_that_mean_something_to_the_loop_arrive_as_plain_errors(
    pool: DaemonPool, failure: BaseException, arrives: type[Exception]
) -> None:
    async def main() -> None:
        with pytest.raises(arrives) as raised:
            await off_loop(pool, raise_, failure)
        assert raised.value.__cause__ is failure

    asyncio.run(main())


def test_work_that_outlives_its_loop_ends_quietly(
    pool: DaemonPool, wedge: Wedge, caplog: pytest.LogCaptureFixture
) -> None:
    loop = asyncio.new_event_loop()
    coroutine = off_loop(pool, wedge)

    async def main() -> None:
        coroutine.send(None)

    loop.run_until_complete(main())
    loop.close()
    wedge.let_go.set()
    pool.close(LONG)
    coroutine.close()
    assert caplog.records == []


@pytest.mark.clause("X1")
def test_a_cancelled_call_that_never_returns_does_not_hold_up_the_exit(
    start_child: StartChild,
) -> None:
    child = start_child("""
        import asyncio, threading
        from holdfast.process import DaemonPool, off_loop

        async def main():
            begun = asyncio.Event()
            loop = asyncio.get_running_loop()
            def wedge():
                loop.call_soon_threadsafe(begun.set)
                threading.Event().wait()
            task = asyncio.create_task(off_loop(DaemonPool("tools", 1, 0), wedge))
            await begun.wait()
            task.cancel()
            print("cancelled", flush=True)
        asyncio.run(main())
    """)
    assert child.line() == "cancelled"
    assert child.end() == (0, "", "")
