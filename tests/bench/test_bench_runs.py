"""The benchmark runs from start to end and judges every goal. How fast it is, is not a test's matter."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.bubblewrap import need_bubblewrap

pytestmark = pytest.mark.soak

DEADLINE = 900.0

ON_POSTGRES = "2 chats at once on PostgreSQL"
BY_NODES = "two processes (control: without notifications)"
GOALS = {
    "CPU per append": "≤ 2",
    "8 threads": "≥ 4",
    "load": "≤ 1.5",
    "slowest append": "≤ 10",
    "CPU per append, 1,200 messages / empty": "Holdfast's ≤ 1.5",
    "bytes stored per byte of text": "Holdfast's ≤ 2",
    "a server's memory after 100 chats that are over, beside 50, without memory": "≤ 1.15",
    "a server's memory after 100 chats that are over, beside 50, with the default memory": "≤ 1.15",
    f"{ON_POSTGRES} (control: on SQLite): median time to the first token after": "+0.5 s",
    f"{ON_POSTGRES} (control: on SQLite): CPU": "≤ 2",
    f"{ON_POSTGRES} (control: on SQLite): complete": "all",
    f"{ON_POSTGRES} with 2 workers (control: on SQLite): median time to the first token after": "+0.5 s",
    f"{ON_POSTGRES} with 2 workers (control: on SQLite): CPU": "≤ 2",
    f"{ON_POSTGRES} with 2 workers (control: on SQLite): complete": "all",
    f"{BY_NODES}: from a message's accept on one node to its turn's start on another": "< 50 ms",
    f"{BY_NODES}: a token's way from the model to a reader on another node": "< 100 ms",
}
WITHOUT_GOAL = (
    "`true` by run_command: bare, and in the sandbox",
    "turns a second on PostgreSQL by 1 node",
    "a turn on PostgreSQL: statements",
    "a turn on PostgreSQL: bytes of WAL",
)
DURABLE = "fsync on, full_page_writes on"
"""What each row on PostgreSQL's server says of it."""


@pytest.mark.timeout(DEADLINE + 60)
def test_a_quick_run_prints_and_keeps_a_row_for_every_goal(checkout: Path, tmp_path: Path) -> None:
    need_bubblewrap()  # without it there is no row of the sandbox
    page = tmp_path / "benchmarks.md"
    options = ["--quick", "--folder", str(tmp_path), "--write", str(page)]
    done = subprocess.run(
        [sys.executable, "-m", "bench", *options],
        cwd=checkout,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    table = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    for what, goal in GOALS.items():
        judged = [line for line in table if line.startswith(f"| {what}") and goal in line]
        assert judged, f"no row judges {what!r} by {goal!r}"
        assert all("met" in line or "missed" in line for line in judged)
    for what in WITHOUT_GOAL:
        assert any(line.startswith(f"| {what}") for line in table), f"no row says {what!r}"
    servers = [line for line in table if ": the server " in line]
    assert servers
    assert all(DURABLE in line for line in servers)
    assert set(table) <= set(page.read_text(encoding="utf-8").splitlines())
    assert [entry.name for entry in tmp_path.iterdir()] == ["benchmarks.md"]


def test_a_quick_run_of_chat_platforms_judges_each_goal_with_memory_or_without(
    checkout: Path, tmp_path: Path
) -> None:
    page = tmp_path / "chats.md"
    done = subprocess.run(
        [sys.executable, "-m", "bench.gateway", "--quick", "--write", str(page)],
        cwd=checkout,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| telegram")]
    for what in ("answered", "calls that the platform refused"):
        judged = [line for line in rows if what in line]
        assert judged
        assert all("met" in line or "missed" in line for line in judged)
    assert set(rows) <= set(done.stdout.splitlines())
