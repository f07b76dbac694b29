"""The contract suite notices each broken promise, passes what keeps them, and says what it didn't try."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.providers.contract_suite.suite_run import mark, run_suite

pytestmark = pytest.mark.slow

BAD = "tests.providers.contract_suite.bad_providers"


@pytest.mark.parametrize(
    ("provider", "check", "said"),
    [
        ("Doubling", "duplicates", "kept more than once: heatherfield"),
        ("TellsByWords", "same words", "two turns were delivered, 1 are kept"),
        ("Swallowing", "retry", "a failed write raised nothing"),
        ("Buffering", "stored", "is not found"),
        ("Reversing", "order", "kept as"),
        ("ThreadPerCall", "one writer", "more threads"),
        ("ThreadPerCall", "closed", "threads are left"),
        ("StuckAtTheEnd", "wedged", "shutdown did not end"),
        ("Leaking", "isolation", "asked for"),
        ("Leaking", "switch", "a recall for the old session is shown in the new"),
        ("Ascii", "unicode", "not delivered"),
        ("Cutting", "size", "'hugeland' was delivered and is not found"),
        ("Loud", "exit", "RuntimeError"),
        ("Forgetful", "crash", "'stronghold04' was delivered and is not found"),
    ],
)
def test_a_broken_promise_is_noticed(tmp_path: Path, provider: str, check: str, said: str) -> None:
    name = check.replace(" ", "_").replace("-", "_")
    card, printed = run_suite(
        f"{BAD}:{provider}Case", tmp_path, "-k", f"test_{name}", "--provider-patience", "8"
    )
    found = mark(card, check)
    assert found.outcome == "no", printed
    assert said in found.reason


@pytest.mark.soak
def test_a_provider_that_keeps_every_promise_has_nothing_but_ticks(tmp_path: Path) -> None:
    card, printed = run_suite(f"{BAD}:GoodCase", tmp_path)
    wrong = [each for each in card.marks if each.outcome != "yes" and each.check != "tools"]
    assert wrong == [], printed
    assert len(card.marks) == 20
    assert "19 yes, 1 not tried" in printed


def test_a_plain_class_is_looked_into_through_recall_alone(tmp_path: Path) -> None:
    card, printed = run_suite(f"{BAD}:Good", tmp_path, "-k", "stored or order or duplicates or retry")
    assert [(each.check, each.outcome) for each in card.marks] == [
        ("stored", "yes"),
        ("order", "not tried"),
        ("duplicates", "yes"),
        ("retry", "not tried"),
    ]
    assert "not tried: the case has no set_health()" in printed
    doubled, _ = run_suite(f"{BAD}:Doubling", tmp_path, "-k", "test_duplicates")
    assert mark(doubled, "duplicates").outcome == "no"


def test_a_gap_that_is_declared_is_shown_and_fails_nothing(tmp_path: Path) -> None:
    card, printed = run_suite(f"{BAD}:KnownGapCase", tmp_path, "-k", "test_duplicates")
    assert (mark(card, "duplicates").outcome, mark(card, "duplicates").reason) == ("gap", "it knows no keys")
    assert "1 xfailed" in printed


def test_what_is_no_provider_is_refused_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "holdfast.testing.provider_suite", "--provider"]
    done = subprocess.run(
        [*command, "no_such:Thing"], cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--provider no_such:Thing: ModuleNotFoundError" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_a_plain_run_of_pytest_imports_none_of_it() -> None:
    script = (
        "import sys, pytest; import holdfast.testing.provider_suite;"
        "print([name for name in sys.modules if name.startswith('holdfast.')])"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "['holdfast.testing', 'holdfast.testing.provider_suite']"
