"""Another process is called gone only when that is beyond doubt."""

import os
import subprocess
import sys

import pytest

from holdfast.process import is_gone, process_identity

SAY_MARK = """
import sys
from holdfast.process import process_identity
print(process_identity(), flush=True)
sys.stdin.read()
"""
LEADER_ENDS = """
import ctypes, sys, threading
from holdfast.process import process_identity
print(process_identity(), flush=True)
threading.Thread(target=sys.stdin.read).start()
ctypes.CDLL(None).pthread_exit(None)
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process's start")


def started(code: str = SAY_MARK) -> "tuple[subprocess.Popen[str], str]":
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def test_a_process_that_lives_is_not_gone() -> None:
    assert not is_gone(process_identity())
    process, mark = started()
    with process:
        assert not is_gone(mark)
        process.kill()


def test_a_process_that_was_killed_is_gone_before_and_after_it_is_reaped() -> None:
    process, mark = started()
    with process:
        process.kill()
        # Waits for its end and leaves it to be reaped.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert is_gone(mark)
    assert is_gone(mark)


def test_a_process_whose_main_thread_ended_lives_while_another_runs() -> None:
    process, mark = started(LEADER_ENDS)
    with process:
        for _ in range(50):
            assert not is_gone(mark)
        process.kill()


def test_another_process_with_the_same_id_is_not_taken_for_it() -> None:
    pid, start, place = process_identity().split(":")
    assert is_gone(f"{pid}:{int(start) - 1}:{place}")


@pytest.mark.parametrize(
    "mark", ["", "1", "::", "x:1:y", "1:-:-", f"{2**40}:1:elsewhere", "999999:1:another machine"]
)
def test_what_can_not_be_proved_is_believed_to_live(mark: str) -> None:
    assert not is_gone(mark)


def test_a_process_of_another_place_may_live_there_under_any_id() -> None:
    _, start, place = process_identity().split(":")
    assert is_gone(f"{2**22 + 7}:{start}:{place}")
    assert not is_gone(f"{2**22 + 7}:{start}:{place[::-1]}x")
