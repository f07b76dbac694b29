"""Several processes on one memory, and processes that are killed."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.core.errors import StoreFailure
from tests.providers.local.completed_turns import turn
from tests.providers.local.conftest import OpenMemory

DEADLINE = 60.0


def start(checkout: Path, scene: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.providers.local.child_process", scene, *map(str, arguments)]
    return subprocess.Popen(command, cwd=checkout, stdout=subprocess.PIPE, text=True)


def finish(child: subprocess.Popen[str]) -> list[str]:
    said, _ = child.communicate(timeout=DEADLINE)
    assert child.returncode == 0
    return said.split()


def test_two_processes_write_at_once_and_nothing_is_lost_or_doubled(
    checkout: Path, path: Path, open_memory: OpenMemory
) -> None:
    children = [start(checkout, "write", path, session, 40) for session in ("left", "right")]
    assert [finish(child) for child in children] == [[str(number) for number in range(40)]] * 2
    memory = open_memory()
    assert memory.describe().passages == 160
    for session in ("left", "right"):
        assert memory.search(f"{session} word7")[0].text == f"{session} said word7"


def test_what_another_process_forgets_is_found_no_more(
    checkout: Path, path: Path, open_memory: OpenMemory
) -> None:
    pytest.importorskip("numpy")
    from tests.providers.local.hashing_embedder import HashingEmbedder

    memory = open_memory(HashingEmbedder())
    memory.sync_turns([turn(1, "The safe opens with 4711"), turn(1, "A walk in the park", session="s2")])
    assert memory.search("safe 4711", mode="vectors")[0].text == "The safe opens with 4711"
    assert finish(start(checkout, "forget", path, "safe 4711")) == ["True"]
    assert all("4711" not in found.text for found in memory.search("safe 4711", mode="vectors"))
    assert all("4711" not in found.text for found in memory.search("safe 4711"))


def test_a_forked_child_is_refused_and_does_the_parent_no_harm(path: Path, open_memory: OpenMemory) -> None:
    memory = open_memory()
    memory.sync_turns([turn(1, "The boat is blue")])
    said, says = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - the child's coverage is not collected
        refusals = 0
        for call in (
            lambda: memory.sync_turns([turn(2, "from the child")]),
            lambda: memory.search("boat"),
            lambda: open_memory().search("boat"),
        ):
            try:
                call()
            except StoreFailure:
                refusals += 1
        memory.shutdown()
        os.write(says, str(refusals).encode())
        os._exit(0)
    os.close(says)
    with os.fdopen(said) as pipe:
        assert pipe.read() == "3"
    os.waitpid(child, 0)
    memory.sync_turns([turn(3, "The boat is green now")])
    assert memory.describe().passages == 2
    memory.shutdown()
    assert open_memory().search("green")[0].text == "The boat is green now"


@pytest.mark.slow
def test_a_process_killed_while_it_stores_loses_nothing_it_acknowledged(
    checkout: Path, path: Path, open_memory: OpenMemory
) -> None:
    chance, acknowledged = random.Random(7), 0
    for _ in range(8):
        child = start(checkout, "write_for_ever", path, acknowledged)
        assert child.stdout is not None
        for _ in range(chance.randrange(1, 20)):
            acknowledged = int(child.stdout.readline())
        until = time.monotonic() + chance.uniform(0, 0.005)
        while time.monotonic() < until:
            pass
        child.kill()
        rest = child.stdout.read().split()
        child.wait(DEADLINE)
        child.stdout.close()
        acknowledged = int(rest[-1]) if rest else acknowledged
    memory = open_memory()
    kept = memory.describe().passages
    assert kept % 20 == 0, "a batch is whole or not there"
    assert kept >= 2 * acknowledged
    for number in range(acknowledged):
        assert memory.search(f"word{number}", 1)[0].text == f"batch word{number}"
