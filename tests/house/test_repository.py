"""The repository as a newcomer finds it: each module explained, an example that runs."""

import importlib
import pkgutil
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from tests.library.scripted_process import scripted_server

MODULES = [
    "holdfast",
    *(module.name for module in pkgutil.walk_packages(holdfast.__path__, prefix="holdfast.")),
]


def fenced_blocks(markdown: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", markdown, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", MODULES)
def test_every_module_opens_with_what_it_owns(name: str) -> None:
    docstring = importlib.import_module(name).__doc__
    assert docstring is not None
    assert docstring.strip()


def test_the_first_example_of_the_readme_runs(checkout: Path, tmp_path: Path) -> None:
    examples = fenced_blocks((checkout / "README.md").read_text(encoding="utf-8"), "python")
    assert examples
    script = tmp_path / "example.py"
    script.write_text(examples[0], encoding="utf-8")
    call = {"tool": "rate", "arguments": {"currency": "USD"}}
    with scripted_server([call, "2.76 euros."], tmp_path) as environment:
        child = subprocess.run(
            [sys.executable, "-W", "error", script.name],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert child.returncode == 0, child.stderr
    assert child.stdout == "2.76 euros.\n"


def test_every_link_between_the_documents_leads_somewhere(checkout: Path) -> None:
    documents = [*checkout.glob("*.md"), *checkout.glob("docs/**/*.md")]
    broken = [
        f"{document.relative_to(checkout)}: {target}"
        for document in documents
        for target in re.findall(r"\]\(([^)#]+)", document.read_text(encoding="utf-8"))
        if "://" not in target and not (document.parent / target).exists()
    ]
    assert broken == []


def test_the_ci_script_runs_the_test_command_of_the_readme_every_python_and_the_real_servers(
    checkout: Path, tmp_path: Path
) -> None:
    commands = fenced_blocks((checkout / "README.md").read_text(encoding="utf-8"), "sh")
    assert "make test" in "".join(commands).splitlines()

    script = checkout / ".ci" / "run"
    assert script.stat().st_mode & stat.S_IXUSR
    # A stand-in for make records how it was called and from where.
    make = tmp_path / "make"
    make.write_text('#!/bin/sh\necho "make $*"\npwd\n')
    make.chmod(0o755)
    # A test installs nothing on the machine that it runs on.
    apt = tmp_path / "apt-get"
    apt.symlink_to("/bin/true")
    child = subprocess.run(
        [script],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    called, folders = child.stdout.splitlines()[::2], child.stdout.splitlines()[1::2]
    assert [" ".join(each.split()[:2]) for each in called] == [
        "make test",
        "make test-pythons",
        "make test-backends",
    ]
    assert called[0] == "make test"
    assert set(folders) == {str(checkout)}
