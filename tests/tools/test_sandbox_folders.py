"""The folders that commands in a sandbox write to: a killed process leaves none behind for good."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.tools.sandbox_folders import PREFIX, PrivateFolders
from tests.tools.call_fixtures import finish, until

OTHER_PROCESS = """
import sys
from holdfast.tools.sandbox_folders import PrivateFolders
folders = PrivateFolders()
print(folders.of("a conversation")[0], flush=True)
sys.stdin.read()
"""


@contextmanager
def other_process(folder: Path) -> "Iterator[tuple[subprocess.Popen[str], Path]]":
    """A process with folders of its own."""
    with subprocess.Popen(
        [sys.executable, "-c", OTHER_PROCESS],
        env={**os.environ, "TMPDIR": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_folders_of_a_killed_process_are_removed_by_the_next_one(temporary: Path) -> None:
    with other_process(temporary) as (process, theirs):
        (theirs / "deep").mkdir()
        (theirs / "deep" / "file").write_text("left")
        (theirs / "deep").chmod(0)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert theirs.is_dir()
    folders = PrivateFolders()
    mine = folders.of("another")
    finish(until(lambda: not theirs.exists()))
    assert all(each.is_dir() for each in mine)
    folders.close()
    assert list(temporary.glob(f"{PREFIX}*")) == []


def test_the_folders_of_a_deleted_conversation_are_removed_and_no_others(temporary: Path) -> None:
    folders = PrivateFolders()
    folders.forget("never begun")
    assert list(temporary.iterdir()) == []
    gone, stays = folders.of("deleted"), folders.of("another")
    (gone[0] / "deep").mkdir()
    (gone[0] / "deep" / "file").write_text("left")
    (gone[0] / "deep").chmod(0)
    folders.forget("deleted")
    folders.forget("deleted")
    assert not any(each.parent.exists() for each in gone)
    assert all(each.is_dir() for each in stays)
    folders.close()


def test_those_of_a_living_process_and_of_links_are_left(temporary: Path) -> None:
    kept = temporary / "kept"
    kept.mkdir()
    (temporary / f"{PREFIX}link").symlink_to(kept)
    left = temporary / f"{PREFIX}left"
    left.mkdir()
    with other_process(temporary) as (_, theirs):
        folders = PrivateFolders()
        folders.of("another")
        finish(until(lambda: not left.exists()))
        assert theirs.is_dir()
        assert kept.is_dir()
        folders.close()
