"""Runs the contract suite in a process of its own, as an author does, and reads the report card."""

import os
import subprocess
import sys
from pathlib import Path

from holdfast.testing.report_card import Mark, ReportCard

PLUGIN = ("-p", "holdfast.testing.provider_suite", "-p", "no:cacheprovider")
TIMEOUT_SECONDS = 600


def run_suite(spec: str, folder: Path, *arguments: str, path: str = "") -> tuple[ReportCard, str]:
    """The card of a provider, and what pytest printed."""
    checkout = Path(__file__).resolve().parents[3]
    file = folder / "card.json"
    command = [sys.executable, "-m", "pytest", *PLUGIN, "--provider", spec, "--report-card", str(file)]
    environment = {
        **os.environ,
        # The plugins of this checkout's own tests take longer to load than most checks to run.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": os.pathsep.join(
            filter(None, (path, str(checkout / "src"), str(checkout), os.environ.get("PYTHONPATH", "")))
        ),
    }
    done = subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    said = done.stdout + done.stderr
    assert file.exists(), said
    return ReportCard.read(file), said


def mark(card: ReportCard, check: str) -> Mark:
    return next(each for each in card.marks if each.check == check)
