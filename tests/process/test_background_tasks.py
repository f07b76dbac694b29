"""Tasks that nobody awaits: they run to their end, and an error of theirs is on record."""

import asyncio
import gc
import weakref

import pytest

from holdfast.process import BackgroundTasks


def others() -> "set[asyncio.Task[object]]":
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}


async def fail() -> None:
    raise ValueError("no")


def test_a_task_is_held_until_it_has_ended() -> None:
    async def scenario() -> None:
        tasks, began = BackgroundTasks(), asyncio.Event()

        async def work() -> None:
            began.set()
            await asyncio.get_running_loop().create_future()  # to which nothing else refers

        held = weakref.ref(tasks.keep(work()))
        await began.wait()
        gc.collect()
        assert held() is not None
        tasks.cancel()
        await asyncio.wait(others())
        gc.collect()
        assert held() is None

    asyncio.run(scenario())


def test_an_error_that_nobody_takes_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        BackgroundTasks().spawn(fail())
        await asyncio.wait(others())

    asyncio.run(scenario())
    assert [record.message for record in caplog.records] == ["process.background_failed"]


def test_an_error_that_the_caller_takes_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        with pytest.raises(ValueError, match="no"):
            await BackgroundTasks().keep(fail())

    asyncio.run(scenario())
    assert caplog.records == []


def test_cancelling_reaches_every_task_and_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        tasks = BackgroundTasks()
        for _ in range(3):
            tasks.spawn(asyncio.Event().wait())
        waiting = others()
        tasks.cancel()
        await asyncio.wait(waiting)
        assert [task.cancelled() for task in waiting] == [True] * 3

    asyncio.run(scenario())
    assert caplog.records == []
