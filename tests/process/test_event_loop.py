"""Nothing that hangs on an event loop of the program holds up its exit, whoever handed it over."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.process import DaemonLoop, run
from tests.process.child_process import StartChild

HANG = """
import asyncio, socket, threading
from holdfast.process import run, use_daemon_loops

began = threading.Event()
def hang(*_, **__):
    began.set()
    threading.Event().wait()
socket.getaddrinfo = socket.getnameinfo = hang

async def main():
    loop = asyncio.get_running_loop()
    loop.set_default_executor(__import__("concurrent.futures").futures.ThreadPoolExecutor())
    work = asyncio.ensure_future({work})
    while not began.is_set():
        await asyncio.sleep(0.001)
    work.cancel()
"""
WORK = {
    "run_in_executor": "loop.run_in_executor(None, hang)",
    "to_thread": "asyncio.to_thread(hang)",
    "getaddrinfo": "loop.getaddrinfo('name.example', 80)",
    "getnameinfo": "loop.getnameinfo(('192.0.2.1', 80))",
    "open_connection": "asyncio.open_connection('name.example', 80)",
}


@pytest.mark.clause("X1", "X5")
@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_what_hangs_on_the_default_executor_does_not_hold_up_the_exit(
    work: str, start_child: StartChild
) -> None:
    child = start_child(HANG.replace("{work}", work) + "run(main())\nprint('over')")
    assert child.end() == (0, "over\n", "")


@pytest.mark.clause("X1", "X5")
def test_a_loop_that_a_library_starts_is_no_different(start_child: StartChild) -> None:
    script = HANG.replace("{work}", WORK["to_thread"])
    script += "use_daemon_loops()\nasyncio.run(main())\nasyncio.new_event_loop().close()\nprint('over')"
    assert start_child(script).end() == (0, "over\n", "")


def test_results_and_failures_come_back_from_the_default_executor() -> None:
    async def scenario() -> threading.Thread:
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)
        return await asyncio.to_thread(threading.current_thread)

    thread = run(scenario())
    assert thread.daemon
    assert thread is not threading.current_thread()


def test_an_executor_that_is_named_is_used() -> None:
    async def scenario(pool: ThreadPoolExecutor) -> str:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(pool, lambda: threading.current_thread().name)

    with ThreadPoolExecutor(thread_name_prefix="named") as pool:
        assert run(scenario(pool)).startswith("named")


def test_a_loop_is_closed_once_and_again() -> None:
    loop = DaemonLoop()
    loop.close()
    loop.close()
    assert loop.is_closed()
