"""A program that ends without closing its store: the end closes it, quietly and whole."""

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.core.ids import new_id

PROGRAM = """
import sys, threading
from holdfast import SessionDB

db = SessionDB.open(sys.argv[1])
name = sys.argv[2]
db.create_session(name, source="test")
readers = [threading.Thread(target=db.get_session, args=[name]) for _ in range(4)]
for each in readers:
    each.start()
for each in readers:
    each.join()
{ending}
"""
ENDINGS = {
    "plain": ("", 0),
    "sys.exit": ("sys.exit(3)", 3),
    "an own hook that uses it": (
        "import atexit; atexit.register(db.conversations.set_title, name, 'late')",
        0,
    ),
}


def ended(url: str, ending: str) -> tuple[int, str]:
    child = subprocess.run(
        [sys.executable, "-X", "dev", "-c", PROGRAM.replace("{ending}", ENDINGS[ending][0]), url, new_id()],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return child.returncode, child.stderr


@pytest.mark.clause("X5")
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_is_left_whole_and_nothing_is_complained_of(tmp_path: Path, ending: str) -> None:
    assert ended(f"sqlite:///{tmp_path / 'store.db'}", ending) == (ENDINGS[ending][1], "")
    # The last connection takes the log into the file and removes it.
    assert [each.name for each in tmp_path.iterdir()] == ["store.db"]


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS)
def test_connections_to_a_server_are_closed_too(postgres: str, ending: str) -> None:
    assert ended(postgres, ending) == (ENDINGS[ending][1], "")
