"""The recall benchmark runs, measures what it says, and says plainly what it skipped."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CONVERSATION = {
    "name": "made up",
    "turns": [
        {
            "id": "D1:1",
            "speaker": "Ann",
            "session": 1,
            "date": "1:56 pm on 8 May, 2023",
            "text": "Ann: I sail",
        },
        {
            "id": "D1:2",
            "speaker": "Bob",
            "session": 1,
            "date": "1:56 pm on 8 May, 2023",
            "text": "Bob: I ski",
        },
    ],
    "questions": [{"question": "Does Ann sail?", "evidence": ["D1:1"], "category": 4}],
}


def run(checkout: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "bench.recall", "--turns", "0", "--chats", "1", *arguments]
    return subprocess.run(command, cwd=checkout, check=True, capture_output=True, text=True).stdout


def test_without_conversations_it_says_that_it_was_skipped(checkout: Path, tmp_path: Path) -> None:
    assert f"skipped: {tmp_path} has no conversations" in run(checkout, "--data", str(tmp_path))


def test_it_prints_the_recall_of_each_system_overall_and_by_category(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "talk.json").write_text(json.dumps(CONVERSATION), encoding="utf-8")
    printed = run(checkout, "--data", str(tmp_path))
    assert "| full text alone, all | 1 | 100.0 | 100.0 | 100.0 |" in printed
    assert "| full text alone, 4 one turn | 1 | 100.0 |" in printed
