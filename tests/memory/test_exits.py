"""However a library user's process ends, it exits in time, and every turn is delivered or still owed."""

import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.memory import MemoryManager
from holdfast.memory.write_lane import CLAIM_SECONDS
from holdfast.sessions import SessionDB
from holdfast.testing import FakeClock
from tests.memory.workers.exit_worker import TURNS, FilingProvider

EXIT_SECONDS = 8.0
ALL = [str(number) for number in range(TURNS)]


@dataclass(frozen=True)
class Ended:
    """What could be seen of a process's end."""

    code: int
    seconds: float
    out: str
    err: str


def ended(folder: Path, kind: str, ending: str, signum: signal.Signals | None = None) -> Ended:
    """Let a process hand its turns over and end; the time counts from the hand-over, or the signal."""
    arguments = [str(folder / "holdfast.db"), str(folder / "filed"), kind, ending]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.memory.workers.exit_worker", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "handed over\n", child.communicate()[1]
            began = time.monotonic()
            if signum is not None:
                child.send_signal(signum)
            out, err = child.communicate(timeout=60)
            return Ended(child.returncode, time.monotonic() - began, out, err)
        finally:
            child.kill()


def filed(folder: Path) -> list[str]:
    file = folder / "filed"
    return file.read_text().split() if file.exists() else []


def owed(folder: Path) -> int:
    with SessionDB(folder / "holdfast.db") as db:
        return db.outbox.backlog("filing").owed


def delivered_after_restart(folder: Path) -> list[str]:
    """What the provider has in the end, each turn once, once the dead process's claims have run out."""
    clock = FakeClock(time.time() + CLAIM_SECONDS + 1)
    with SessionDB(folder / "holdfast.db", clock=clock) as db:
        memory = MemoryManager(db, clock=clock)
        memory.add_provider(FilingProvider(folder / "filed", wedged=False))
        assert memory.flush_pending(30)
        assert memory.shutdown_all() == []
    return list(dict.fromkeys(filed(folder)))


@pytest.mark.clause("D1", "D5", "D6", "M5")
@pytest.mark.parametrize(
    ("ending", "signum", "code"),
    [
        ("plain", None, 0),
        ("sys.exit", None, 0),
        ("error", None, 1),
        ("signal", signal.SIGINT, -signal.SIGINT),
        ("handled signal", signal.SIGTERM, 128 + signal.SIGTERM),
        ("handled signal", signal.SIGINT, 128 + signal.SIGINT),
        ("handled signal", signal.SIGHUP, 128 + signal.SIGHUP),
    ],
)
def test_an_end_that_python_sees_delivers_everything_without_shutdown_all(
    ending: str, signum: signal.Signals | None, code: int, tmp_path: Path
) -> None:
    end = ended(tmp_path, "quick", ending, signum)
    assert end.code == code, end.err
    assert end.seconds < EXIT_SECONDS
    assert "cannot schedule" not in end.err
    assert (filed(tmp_path), owed(tmp_path)) == (ALL, 0)


@pytest.mark.clause("D1", "X1")
@pytest.mark.parametrize("kind", ["quick", "wedged"])
@pytest.mark.parametrize(
    ("ending", "signum", "code"),
    [
        ("os._exit", None, 0),
        ("signal", signal.SIGTERM, -signal.SIGTERM),
        ("signal", signal.SIGHUP, -signal.SIGHUP),
        ("signal", signal.SIGKILL, -signal.SIGKILL),
    ],
)
def test_an_end_that_python_does_not_see_loses_nothing(
    ending: str, signum: signal.Signals | None, code: int, kind: str, tmp_path: Path
) -> None:
    """A process without handlers just dies of SIGTERM: what it handed over is on disk."""
    end = ended(tmp_path, kind, ending, signum)
    assert end.code == code, end.err
    assert end.seconds < EXIT_SECONDS
    before = list(dict.fromkeys(filed(tmp_path)))
    assert before == ALL[: len(before)]
    assert len(before) + owed(tmp_path) >= TURNS
    assert delivered_after_restart(tmp_path) == ALL


@pytest.mark.slow
@pytest.mark.clause("D1", "D9", "M5", "X1", "X4")
@pytest.mark.parametrize(
    ("ending", "signum", "code"),
    [
        ("plain", None, 0),
        ("sys.exit", None, 0),
        ("error", None, 1),
        ("signal", signal.SIGINT, -signal.SIGINT),
        ("handled signal", signal.SIGTERM, 128 + signal.SIGTERM),
        ("handled signal", signal.SIGINT, 128 + signal.SIGINT),
    ],
)
def test_a_wedged_provider_holds_up_no_exit_and_what_it_is_owed_is_said_and_kept(
    ending: str, signum: signal.Signals | None, code: int, tmp_path: Path
) -> None:
    end = ended(tmp_path, "wedged", ending, signum)
    assert end.code == code, end.err
    assert end.seconds < EXIT_SECONDS
    assert f"{TURNS} turns are owed to filing; they will be sent at the next start" in end.out + end.err
    assert owed(tmp_path) == TURNS
    assert delivered_after_restart(tmp_path) == ALL
