"""The table of guarantees: which tests prove which clause, and which clauses have none."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.clauses import DOCUMENT, TABLE, read_clauses

PROVEN_TWICE = """
    import pytest

    @pytest.mark.clause("C5")
    @pytest.mark.parametrize("engine", ["sqlite", "postgres"])
    def test_a_second_child_is_refused(engine):
        pass

    def test_the_loser_gets_its_messages_back():
        '''C2: word for word.'''

    def test_that_proves_no_clause():
        pass
"""


def run(pytester: pytest.Pytester, source: str, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(source)
    return pytester.runpytest_inprocess("-p", "tools.clauses", *arguments)


def test_every_clause_is_read_with_its_promise_and_its_whole_text() -> None:
    document = (
        "# Title\n- M0 not under a promise\n\n## M — never blocked\nProse.\n"
        "- M1 The first\n  goes on.\n- M2 The second.\n\n## D — never lost\n- D1 The third.\n"
    )
    clauses = read_clauses(document)
    assert [(clause.id, clause.promise, clause.text) for clause in clauses.values()] == [
        ("M1", "M — never blocked", "The first goes on."),
        ("M2", "M — never blocked", "The second."),
        ("D1", "D — never lost", "The third."),
    ]


def test_the_clauses_of_each_promise_are_numbered_without_gaps() -> None:
    numbers: dict[str, list[int]] = {}
    for clause_id in read_clauses(DOCUMENT.read_text(encoding="utf-8")):
        numbers.setdefault(clause_id[0], []).append(int(clause_id[1:]))
    assert set(numbers) == set("MDLICXSGN")
    assert all(found == list(range(1, len(found) + 1)) for found in numbers.values())


def test_selecting_clauses_ends_with_the_table(pytester: pytest.Pytester) -> None:
    result = run(pytester, PROVEN_TWICE, "-m", "clause")
    result.assert_outcomes(passed=3, deselected=1)
    result.stdout.fnmatch_lines(
        [
            "C — a session is never forked",
            "  C1 *NO TEST YET",
            "  C2  The loser gets its messages back verbatim *",
            "*::test_the_loser_gets_its_messages_back",
            "  C5  Even with no lock *",
            "*::test_a_second_child_is_refused [[]sqlite, postgres]",
            "2 of * clauses have tests",
        ]
    )


def test_a_long_list_of_parameters_is_counted(pytester: pytest.Pytester) -> None:
    source = """
        import pytest

        @pytest.mark.clause("X1", "X2")
        @pytest.mark.parametrize("seed", range(50))
        def test_it_exits(seed):
            pass
    """
    result = run(pytester, source, "-m", "clause", "--collect-only")
    shown = [line for line in result.outlines if re.search(r"::test_it_exits \[50 cases\]$", line)]
    assert len(shown) == 2


def test_an_ordinary_run_prints_no_table(pytester: pytest.Pytester) -> None:
    result = run(pytester, PROVEN_TWICE)
    result.assert_outcomes(passed=4)
    result.stdout.no_fnmatch_line("*clauses have tests")


@pytest.mark.parametrize(
    "source",
    [
        "import pytest\n\n@pytest.mark.clause('C99')\ndef test_it():\n    pass\n",
        "def test_it():\n    '''C5, C99: both.'''\n",
    ],
    ids=["marker", "docstring"],
)
def test_an_unknown_clause_fails_the_collection(pytester: pytest.Pytester, source: str) -> None:
    result = run(pytester, source)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*::test_it: C99 is no clause of docs/guarantees.md"])


@pytest.mark.slow  # collects every test, unless this run has done so
def test_every_clause_has_a_test(checkout: Path, request: pytest.FixtureRequest) -> None:
    config = request.config
    if [config.rootpath / each for each in config.args] == [checkout / "tests"]:
        table = config.stash[TABLE]
        assert table.unproven() == []
        return
    listed = subprocess.run(
        [sys.executable, "-m", "tools.guarantees"], cwd=checkout, capture_output=True, text=True, check=False
    )
    assert "NO TEST YET" not in listed.stdout
    assert listed.returncode == 0, listed.stdout[-500:] + listed.stderr[-2000:]
