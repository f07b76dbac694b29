"""The benchmark of the embedded model runs from start to end."""

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.models.embedded import embedded_state

pytestmark = pytest.mark.slow


@pytest.mark.slow
def test_a_short_run_prints_every_figure(checkout: Path) -> None:
    if not embedded_state(Path("/nowhere")).ready:
        pytest.skip("the embedded model is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "bench.embedded", "--rounds", "1"],
        cwd=checkout,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for figure in ("load, s", "warm: first token, s", "tokens a second"):
        assert f"| {figure} |" in done.stdout
