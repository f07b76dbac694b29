"""The page's modules without a browser: the pure ones in Node."""

import os
import subprocess
from pathlib import Path

import pytest

from tools.bootstrap import PAGE_LIBRARIES
from tools.page_libraries import node

HERE = Path(__file__).parent
PAGE = PAGE_LIBRARIES.parent


@pytest.mark.parametrize("name", sorted(path.name for path in (HERE / "js").glob("*.test.mjs")))
def test_a_pure_module_does_what_its_own_tests_say(name: str) -> None:
    ran = subprocess.run(
        [node(), "--test", str(HERE / "js" / name)],
        env={**os.environ, "HOLDFAST_PAGE": f"{PAGE.as_uri()}/"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    assert "# pass 0" not in ran.stdout


def test_every_module_says_what_it_owns() -> None:
    for path in PAGE.glob("*.js"):
        assert path.read_text(encoding="utf-8").startswith("// Owns "), path.name
