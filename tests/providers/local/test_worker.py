"""The worker process, with the real model: it may die, hang or be orphaned, and recall goes on."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import pytest

from holdfast.core.clock import SystemClock
from holdfast.memory.config import ProviderConfig
from holdfast.memory.contract import RecallAnswer
from holdfast.providers.local import LocalMemory, worker_client
from holdfast.providers.local.embedding import missing_packages
from tests.memory.gates import DEADLINE, until
from tests.providers.local.completed_turns import turn

pytestmark = [
    pytest.mark.skipif(bool(missing_packages()), reason="the extra embeddings is not installed"),
    pytest.mark.slow,
]

PARENT = """
import sys
from holdfast.core.clock import SystemClock
from holdfast.providers.local import LocalMemory
memory = LocalMemory(sys.argv[1], clock=SystemClock())
memory.initialize("")
while not (memory.search("hound"), memory.describe().worker.split()[-1])[1].isdigit():
    pass  # the worker is starting
print(memory.describe().worker.rpartition(" ")[2], "numpy" in sys.modules, flush=True)
sys.stdin.read()
"""


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def worker_pid(memory: LocalMemory) -> int:
    return int(memory.describe().worker.split()[4].rstrip(","))


def asked(memory: LocalMemory, query: str = "Which puppy swims?") -> RecallAnswer:
    return memory.begin_prefetch(query, session_id="asking").result(DEADLINE)


def hybrid(memory: LocalMemory) -> bool:
    answer = asked(memory)
    return not answer.note and "lake" in answer.text


@pytest.fixture
def memory(path: Path) -> Iterator[LocalMemory]:
    """A memory with one turn and its vectors; its worker runs."""
    opened = LocalMemory(path, clock=SystemClock(), zone=UTC)
    opened.sync_turns([turn(1, "My dog likes the lake"), turn(1, "Taxes are due", session="s2")])
    until(lambda: opened.describe().without_vector == 0)
    until(lambda: hybrid(opened))
    yield opened
    opened.shutdown()


def test_it_finds_by_meaning_what_the_program_stored(memory: LocalMemory) -> None:
    assert memory.search("a hound", 1, mode="vectors")[0].text == "My dog likes the lake"
    until(lambda: not asked(memory, "a hound").note)  # a busy machine may answer by full text at first


def test_nothing_is_started_while_there_is_nothing_to_recall(path: Path) -> None:
    memory = LocalMemory(path, clock=SystemClock())
    memory.initialize("")
    assert asked(memory) == RecallAnswer("")
    assert "not running" in str(memory.describe())
    memory.shutdown()


def test_killed_in_the_middle_it_costs_vectors_and_comes_back(memory: LocalMemory) -> None:
    pid = worker_pid(memory)
    os.kill(pid, signal.SIGSTOP)
    waiting = memory.begin_prefetch("Who likes the lake?", session_id="asking")
    os.kill(pid, signal.SIGKILL)
    answer = waiting.result(DEADLINE)
    assert "My dog likes the lake" in answer.text
    assert answer.note.startswith("by full text alone")
    until(lambda: hybrid(memory))
    assert worker_pid(memory) != pid
    assert not Path(f"/proc/{pid}").exists(), "a zombie is left"


def test_stopped_it_is_not_waited_for_again_and_is_replaced_at_last(
    memory: LocalMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_client, "UNRESPONSIVE_SECONDS", 1.0)
    pid = worker_pid(memory)
    os.kill(pid, signal.SIGSTOP)
    first = asked(memory, "Who likes the lake?")
    assert "did not answer in time" in first.note
    assert "lake" in first.text
    second = memory.begin_prefetch("Who likes the lake?", session_id="asking")
    assert second.done(), "it is known to be silent"
    assert "does not answer" in str(memory.describe())
    until(lambda: not is_running(pid))
    until(lambda: hybrid(memory))


def test_it_ends_with_a_program_that_was_killed(memory: LocalMemory, path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        pid, has_numpy = program.stdout.readline().split()
        assert has_numpy == "False", "the serving process imports no numpy"
        assert is_running(int(pid))
        program.kill()
        program.wait(DEADLINE)
    until(lambda: not is_running(int(pid)))


def test_shutting_down_leaves_no_process_no_thread_and_no_open_file(memory: LocalMemory) -> None:
    pid = worker_pid(memory)
    memory.shutdown()
    assert not Path(f"/proc/{pid}").exists()
    assert not any(each.name == "local-memory-worker" for each in threading.enumerate())
    held = [os.path.realpath(each) for each in Path("/proc/self/fd").iterdir()]
    assert not any("memory.db" in each for each in held)


def test_without_questions_it_ends_after_a_while(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.providers.local.provider.IDLE_SECONDS", 0.1)
    memory = LocalMemory(path, clock=SystemClock())
    memory.sync_turns([turn(1, "My dog likes the lake")])
    until(lambda: memory.describe().without_vector == 0)
    until(lambda: "not running" in str(memory.describe()))
    until(lambda: hybrid(memory))
    memory.shutdown()


def test_questions_that_come_together_are_all_answered(memory: LocalMemory) -> None:
    answers = [memory.begin_prefetch(f"Who likes lake {number}?", session_id="x") for number in range(300)]
    for answer in answers:
        given = answer.result(DEADLINE)
        assert given.note or "lake" in given.text


def test_what_an_answer_used_is_counted_though_the_worker_recalled_it(memory: LocalMemory) -> None:
    question = "Which puppy swims?"
    until(lambda: not asked(memory, question).note)  # a busy machine may answer by full text at first
    memory.sync_turns([turn(2, question, "Your dog does; it likes the lake.", session="asking")])
    found = {each.text: (each.shown, each.used) for each in memory.browse("dog lake", 5)}
    assert found["My dog likes the lake"] == (1, 1)


def test_with_facts_the_worker_recalls_them_too(path: Path) -> None:
    opened = LocalMemory(path, clock=SystemClock(), zone=UTC, turns_in_context=20)
    opened.initialize("", config=ProviderConfig({"facts": "true"}))
    opened.sync_turns([turn(1, "My favourite colour is green."), turn(1, "Taxes are due", session="s2")])
    try:
        until(lambda: opened.describe().without_vector == 0)
        until(lambda: not opened.begin_prefetch("favourite colour", session_id="s1").result(DEADLINE).note)
        assert "green" in opened.begin_prefetch("favourite colour", session_id="s1").result(DEADLINE).text
    finally:
        opened.shutdown()
