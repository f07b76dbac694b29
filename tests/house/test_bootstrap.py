"""The first run on a new machine: which Python is taken, and what is said when one is missing."""

from pathlib import Path

import pytest

from tests.house.stand_ins import interpreter, stand_in
from tools.bootstrap import CannotBootstrap, find_python, pip_command


def test_the_python_that_runs_make_is_taken_when_it_will_do(tmp_path: Path) -> None:
    current = interpreter(tmp_path / "python3", "3 11")
    interpreter(tmp_path / "python3.13", "3 13")
    assert find_python(str(current), str(tmp_path)) == str(current)


@pytest.mark.parametrize("version", ["3 10", "3 14"])
def test_another_python_is_looked_for_on_the_path_newest_first(tmp_path: Path, version: str) -> None:
    current = interpreter(tmp_path / "python3", version)
    interpreter(tmp_path / "python3.11", "3 11")
    newest = interpreter(tmp_path / "python3.12", "3 12")
    assert find_python(str(current), str(tmp_path)) == str(newest)


def test_a_python_that_does_not_start_is_passed_over(tmp_path: Path) -> None:
    current = interpreter(tmp_path / "python3", "3 9")
    stand_in(tmp_path / "python3.13", "exit 127")
    working = interpreter(tmp_path / "python3.11", "3 11")
    assert find_python(str(current), str(tmp_path)) == str(working)


def test_without_a_fitting_python_the_message_says_which_are(tmp_path: Path) -> None:
    current = interpreter(tmp_path / "python3", "3 9")
    with pytest.raises(CannotBootstrap, match=r"needs Python 3\.11, 3\.12 or 3\.13"):
        find_python(str(current), str(tmp_path))


def test_without_pip_and_venv_the_message_says_what_to_install(tmp_path: Path) -> None:
    bare = stand_in(tmp_path / "python3", "exit 1")
    with pytest.raises(CannotBootstrap, match="apt install python3-venv"):
        pip_command(str(bare), tmp_path / "scratch")


def test_without_pip_a_virtual_environment_provides_it(tmp_path: Path) -> None:
    with_venv_only = stand_in(tmp_path / "python3", 'test "$2" = venv')
    scratch = tmp_path / "scratch"
    assert pip_command(str(with_venv_only), scratch) == [
        str(scratch / "bin" / "python"),
        "-m",
        "pip",
    ]
