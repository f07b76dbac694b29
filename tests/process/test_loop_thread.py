"""An async client's own loop: calls from any thread, and an end that leaves nothing behind."""

import asyncio
import subprocess
import sys
import threading

import pytest

from holdfast.core.errors import PoolClosed
from holdfast.process import LoopThread

AT_EXIT = """
import asyncio, atexit
from holdfast.process import LoopThread

loop = LoopThread("own")

async def look_up():
    found = await asyncio.get_running_loop().getaddrinfo("localhost", 80)
    return bool(found)

async def last():
    print("closed on", __import__("threading").current_thread().name, await look_up())

print(loop.run(look_up, 10))
atexit.register(loop.close, last)
"""


async def number() -> int:
    return 7


async def forever() -> None:
    await asyncio.Event().wait()


def test_calls_from_any_thread_run_on_one_thread() -> None:
    loop = LoopThread("own")
    seen: set[str] = set()

    async def note() -> None:
        seen.add(threading.current_thread().name)

    callers = [threading.Thread(target=loop.run, args=[note]) for _ in range(5)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert loop.run(number) == 7
    assert seen == {"own"}
    assert loop.close()


def test_a_call_that_takes_too_long_is_cancelled() -> None:
    loop = LoopThread("own")
    ended = threading.Event()

    async def slow() -> None:
        try:
            await forever()
        finally:
            ended.set()

    with pytest.raises(TimeoutError):
        loop.run(slow, 0.05)
    assert ended.wait(60)
    loop.close()


@pytest.mark.clause("D5")
def test_closing_waits_for_a_call_then_cancels_and_runs_the_last_one() -> None:
    loop = LoopThread("own")
    happened: list[str] = []
    begun = threading.Event()

    async def stuck() -> None:
        begun.set()
        try:
            await forever()
        finally:
            happened.append("cancelled")

    async def last() -> None:
        happened.append(threading.current_thread().name)

    def call() -> None:
        try:
            loop.run(stuck)
        except PoolClosed:
            happened.append("refused")

    caller = threading.Thread(target=call)
    caller.start()
    assert begun.wait(60)
    assert loop.close(last, patience=0.05)
    caller.join(60)
    assert happened[0] == "cancelled"
    assert sorted(happened[1:]) == ["own", "refused"]
    assert loop.close(last)
    with pytest.raises(PoolClosed):
        loop.run(number)
    assert not [each for each in threading.enumerate() if each.name == "own"]


def test_one_that_was_never_used_has_no_thread() -> None:
    loop = LoopThread("own")
    assert not [each for each in threading.enumerate() if each.name == "own"]
    assert loop.close()


def test_what_runs_by_itself_is_cancelled_at_the_end_and_its_failure_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = LoopThread("own")
    cancelled = threading.Event()

    async def by_itself() -> None:
        try:
            await forever()
        finally:
            cancelled.set()

    async def broken() -> None:
        raise RuntimeError("broken")

    async def begin() -> None:
        _ = loop.spawn(by_itself())
        await loop.spawn(broken())

    loop.run(begin)
    assert loop.close()
    assert cancelled.is_set()
    assert "own_loop.failed" in caplog.text


@pytest.mark.clause("D5", "D6")
def test_names_can_be_looked_up_even_while_the_interpreter_exits() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", AT_EXIT], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.splitlines() == ["True", "closed on own True"], done.stderr
    assert "cannot schedule" not in done.stderr


AT_EXIT_FIRST = """
import atexit
from holdfast.core.errors import PoolClosed
from holdfast.process import LoopThread

loop = LoopThread("own")

async def number():
    return 7

def at_exit():
    try:
        print(loop.run(number, 10))
    except PoolClosed:
        print(7)
    print(loop.close())

atexit.register(at_exit)
"""


def test_a_loop_that_is_first_used_at_the_exit_works_or_says_that_it_is_closed() -> None:
    """Python 3.12 starts no thread by then."""
    ended = subprocess.run(
        [sys.executable, "-c", AT_EXIT_FIRST], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "7\nTrue\n", "")
