"""The benchmark runs from start to end and judges every goal. How fast it is, is not a test's matter."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.soak

GOALS = {
    "CPU per append": "≤ 2",
    "8 threads": "≥ 4",
    "load": "≤ 1.5",
    "slowest append": "≤ 10",
    "CPU per append, 1,200 messages / empty": "Holdfast's ≤ 1.5",
    "bytes stored per byte of text": "Holdfast's ≤ 2",
}


def test_a_quick_run_prints_and_keeps_a_row_for_every_goal(checkout: Path, tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    options = ["--quick", "--folder", str(tmp_path), "--write", str(page)]
    done = subprocess.run(
        [sys.executable, "-m", "bench", *options],
        cwd=checkout,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    table = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    for what, goal in GOALS.items():
        judged = [line for line in table if line.startswith(f"| {what}") and goal in line]
        assert judged, f"no row judges {what!r} by {goal!r}"
        assert all("met" in line or "missed" in line for line in judged)
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
