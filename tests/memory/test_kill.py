"""D1, D2, M6 under SIGKILL: what was handed over reaches every provider, in order, whatever is killed."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

TURNS_PER_LIFE = 100
PROVIDERS = ("fast", "slow", "failing")


def life(folder: Path, first: int, count: int, ending: str) -> "subprocess.Popen[str]":
    arguments = [str(folder / "holdfast.db"), str(folder), str(first), str(count), ending]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.memory.workers.kill_worker", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def killed_at(child: "subprocess.Popen[str]", acknowledged: int) -> list[int]:
    """Let it live for that many acknowledgements, kill it, and return all it had acknowledged."""
    assert child.stdout is not None
    heard = [child.stdout.readline() for _ in range(acknowledged)]
    child.kill()
    heard += child.stdout.readlines()
    child.wait()
    child.stdout.close()
    return [int(line) for line in heard if line.endswith("\n")]


def check_provider(path: Path, acknowledged: set[int], handed_over: int) -> int:
    """Nothing lost, nothing out of order in a session, nothing doubled by key; returns the lines."""
    lines = [line.split() for line in path.read_text().splitlines()]
    by_key = {key: (session, int(turn)) for key, session, turn in lines}
    turns = [turn for _, turn in by_key.values()]
    assert len(turns) == len(set(turns)), "one turn under two keys"
    assert acknowledged <= set(turns)
    assert max(turns) < handed_over
    first_seen: dict[str, list[int]] = {}
    for key, (session, turn) in by_key.items():
        assert key.startswith(f"{session}/")
        first_seen.setdefault(session, []).append(turn)
    for order in first_seen.values():
        assert order == sorted(order)
    return len(lines)


def run_lives(folder: Path, lives: int) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    acknowledged: set[int] = set()
    for number in range(lives):
        child = life(folder, number * TURNS_PER_LIFE, TURNS_PER_LIFE, "wait")
        acknowledged.update(killed_at(child, chance.randint(0, TURNS_PER_LIFE)))
    last = life(folder, lives * TURNS_PER_LIFE, 1, "drain")
    said, _ = last.communicate(timeout=240)
    assert said.split()[-1] == "drained", said
    handed_over = lives * TURNS_PER_LIFE + 1
    lines = {name: check_provider(folder / name, acknowledged, handed_over) for name in PROVIDERS}
    report = f"\n{lives} kills, {len(acknowledged)} turns acknowledged, seed {seed}; delivered {lines}\n"
    sys.stdout.write(report)


@pytest.mark.slow
@pytest.mark.clause("D1", "D2", "M6")
def test_after_a_few_kills_every_turn_reaches_every_provider(tmp_path: Path) -> None:
    run_lives(tmp_path, lives=5)


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.clause("D1", "D2", "M6")
def test_after_two_hundred_kills_every_turn_reaches_every_provider(tmp_path: Path) -> None:
    run_lives(tmp_path, lives=200)
