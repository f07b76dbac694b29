"""The programs on the pages about the library run as they stand there."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.test_repository import fenced_blocks
from tests.library.scripted_process import scripted_server

# Each test is several processes.
pytestmark = pytest.mark.slow

DOCS = Path(__file__).resolve().parents[2] / "docs"
INVOICE = {"tool": "final_result", "arguments": {"number": "A-7", "total": 12.5}}
BLOCKS = [
    pytest.param(block, id=f"{page}-{number}")
    for page in ("library.md", "testing-your-agent.md", "comparison.md")
    for number, block in enumerate(fenced_blocks((DOCS / page).read_text(encoding="utf-8"), "python"), 1)
    if "holdfast" in block  # comparison.md shows other libraries too
]


@pytest.mark.parametrize("block", BLOCKS)
def test_every_program_of_the_pages_runs(block: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(block, encoding="utf-8")
    script = [INVOICE] if "result_type" in block else ["one", "two"]
    with scripted_server(script, tmp_path) as environment:
        child = subprocess.run(
            [sys.executable, "-W", "error", "program.py"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert child.returncode == 0, child.stderr
    assert "Traceback" not in child.stderr
    # A store that died can't take its lease back, and the log says so.
    assert child.stderr.replace("agent.lease_not_released\n", "") == ""
