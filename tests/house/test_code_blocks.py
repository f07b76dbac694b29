"""Every code block of the documents runs, or names only what exists."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from holdfast.cli.commands import app

BLOCK = re.compile(r"^```(?P<language>\w+)(?P<note>[^\n]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
NEEDS_MORE = {
    "README.md": "a model; test_repository runs it against a scripted server",
    "docs/comparison.md": "a model, and four other libraries; tests/library runs the first",
    "docs/library.md": "a model; tests/library runs them",
    "docs/testing-your-agent.md": "a while; tests/library runs them",
    "docs/http-api.md": "a server and its token; tests/web/api runs it",
    "docs/writing-a-provider.md": "the files before it; tests/providers runs them",
    "docs/writing-an-adapter.md": "the files before it; tests/gateway runs them",
}
"""Documents whose Python needs something that a block alone has not; it must compile."""
DISPLAYED = {"caddy", "json", "markdown", "mermaid", "nginx", "sql", "text", "toml", "yaml"}
"""Not commands: configurations of other programs, what a database is told, pictures and what is printed."""


def blocks(*languages: str) -> list[ParameterSet]:
    found: list[ParameterSet] = []
    for document in DOCUMENTS:
        name = str(document.relative_to(ROOT))
        for number, block in enumerate(BLOCK.finditer(document.read_text(encoding="utf-8")), start=1):
            if block["language"] in languages:
                found.append(pytest.param(name, block["code"], id=f"{name}-{number}"))
    return found


def test_no_document_has_a_block_of_a_kind_that_nobody_checks() -> None:
    known = {*DISPLAYED, "python", "sh"}
    kinds = {
        block["language"] for each in DOCUMENTS for block in BLOCK.finditer(each.read_text(encoding="utf-8"))
    }
    assert kinds <= known


@pytest.mark.parametrize(("document", "code"), blocks("python"))
def test_a_python_block_runs_or_at_least_compiles(document: str, code: str, tmp_path: Path) -> None:
    compile(code, document, "exec")
    if document in NEEDS_MORE:
        return
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("document", "code"), blocks("sh"))
def test_every_command_of_a_shell_block_exists(document: str, code: str, checkout: Path) -> None:
    targets = set(
        re.findall(r"^([a-z-]+):", (checkout / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )
    for target in re.findall(r"^make ([a-z-]+)", code, re.MULTILINE):
        assert target in targets, document
    for line in re.findall(r"(?:^|\s)holdfast ([a-z][^\n#|;&]*)", code):
        words = line.split()
        assert words[0] in app, f"{document}: holdfast {line}"
        known = [each for each in app[words[0]] if not each.startswith("-")]
        if known and len(words) > 1 and not words[1].startswith("-"):
            assert words[1] in known, f"{document}: holdfast {line}"
