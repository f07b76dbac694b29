"""`make test-pythons`: which interpreters are found, and what is said of those that are missing."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.house.stand_ins import interpreter, stand_in
from tools.pythons import ENVIRONMENTS, find_pythons, run_all


def test_interpreters_are_found_on_the_path_and_with_pyenv(tmp_path: Path) -> None:
    on_path = tmp_path / "bin"
    on_path.mkdir()
    newest = tmp_path / "pyenv" / "3.12.10" / "bin"
    for folder in (newest, tmp_path / "pyenv" / "3.12.9" / "bin"):
        folder.mkdir(parents=True)
        interpreter(folder / "python3.12", "3 12")
    eleven = interpreter(on_path / "python3.11", "3 11")
    assert find_pythons(str(on_path), tmp_path / "pyenv") == {
        (3, 11): str(eleven),
        (3, 12): str(newest / "python3.12"),
    }


def test_a_command_that_does_not_start_or_is_another_version_is_passed_over(tmp_path: Path) -> None:
    """As pyenv's shim does, whose version is not switched on."""
    shims, others = tmp_path / "shims", tmp_path / "bin"
    shims.mkdir()
    others.mkdir()
    stand_in(shims / "python3.13", "exit 127")
    working = interpreter(others / "python3.13", "3 13")
    interpreter(others / "python3.12", "3 11")
    assert find_pythons(f"{shims}:{others}", tmp_path / "none") == {(3, 13): str(working)}


def test_each_runs_in_an_environment_of_its_own_and_a_failure_does_not_stop_the_next(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs: list[tuple[str, Path, list[str]]] = []

    def run(python: str, environment: Path, arguments: Sequence[str]) -> bool:
        runs.append((python, environment, list(arguments)))
        return python != "eleven"

    assert run_all({(3, 11): "eleven", (3, 12): "twelve"}, ["-k", "x"], run) == 1
    assert runs == [
        ("eleven", ENVIRONMENTS / "3.11", ["-k", "x"]),
        ("twelve", ENVIRONMENTS / "3.12", ["-k", "x"]),
    ]
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "Python 3.11: failed (eleven)",
        "Python 3.12: passed (twelve)",
        "Python 3.13: missing on this machine, not tested",
    ]


def test_what_is_missing_is_no_failure_unless_all_are() -> None:
    assert run_all({(3, 12): "twelve"}, [], lambda *_: True) == 0
    assert run_all({}, [], lambda *_: True) == 1


def test_the_python_of_the_checkout_can_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    runs: list[str] = []

    def run(python: str, _: Path, arguments: Sequence[str]) -> bool:
        runs.append(f"{python} {' '.join(arguments)}")
        return True

    every = {(3, 11): "3.11", (3, 12): "3.12", (3, 13): "3.13"}
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert run_all(every, ["--others", "-k", "x"], run) == 0
    assert runs == [f"{each} -k x" for each in every.values() if each != own]
    assert f"Python {own}: left out" in capsys.readouterr().out
    assert run_all({sys.version_info[:2]: own}, ["--others"], run) == 0
