"""The other package called `holdfast`, installed beside this one, is named instead of failing oddly."""

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import holdfast
from holdfast.core.distribution import REPAIR, other_package_note, overwritten_problem

START = """
import sys
# Only this one: without its first file a package is found last, after the checkout's.
sys.path[:] = [sys.argv.pop(1), *(each for each in sys.path if not each.endswith("/src"))]
from holdfast.cli.main import main
main()
"""


def test_the_own_package_is_no_problem() -> None:
    assert overwritten_problem(holdfast) == ""
    assert other_package_note() == ""


def test_a_package_without_the_own_names_is_a_problem_with_its_repair() -> None:
    other = ModuleType("holdfast")
    assert REPAIR in overwritten_problem(other)
    other.__file__ = "/elsewhere/holdfast/__init__.py"
    other.__all__ = ["Contract"]  # type: ignore[attr-defined]
    assert "/elsewhere/holdfast/__init__.py is not the one of holdfast-agent" in overwritten_problem(other)


def test_the_other_package_is_found_by_what_is_installed(tmp_path: Path) -> None:
    (tmp_path / "holdfast-0.5.1.dist-info").mkdir()
    (tmp_path / "holdfast-0.5.1.dist-info" / "METADATA").write_text("Name: holdfast\nVersion: 0.5.1\n")
    assert "the package `holdfast` 0.5.1, another program" in other_package_note([str(tmp_path)])


@pytest.mark.slow
@pytest.mark.parametrize("harm", ["overwritten", "removed"])
def test_every_command_says_it_first(harm: str, checkout: Path, tmp_path: Path) -> None:
    package = tmp_path / "site" / "holdfast"
    shutil.copytree(
        checkout / "src" / "holdfast", package, ignore=shutil.ignore_patterns("lib", "__pycache__")
    )
    if harm == "removed":
        (package / "__init__.py").unlink()
    else:
        (package / "__init__.py").write_text("__all__ = ['Contract']\n")
    for arguments in (["--version"], ["doctor"], ["chat"]):
        done = subprocess.run(
            [sys.executable, "-c", START, str(package.parent), *arguments],
            env={**os.environ, "HOME": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 1
        assert "is not the one of holdfast-agent" in done.stderr
        assert "Traceback" not in done.stderr
        assert io.StringIO(done.stderr).readline().endswith("an environment of its own.\n")
