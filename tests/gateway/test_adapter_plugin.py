"""`pytest --adapter` runs the suite as an author does, and prints a report card."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.testing.adapter_suite import ADAPTER_CHECKS
from holdfast.testing.report_card import Mark, ReportCard

PLUGINS = (
    *("-p", "holdfast.testing.provider_suite", "-p", "holdfast.testing.adapter_plugin"),
    *("-p", "no:cacheprovider"),
)
PLATFORMS = """
from holdfast.testing.memory_platform import MemoryPlatform
from tests.gateway.broken_adapters import BrokenPlatform, NotModified, NoMentions

def deaf(): return BrokenPlatform(NoMentions)

class Gap(BrokenPlatform):
    gaps = {"edit": "the API has no word for it"}
    def __init__(self): super().__init__(NotModified)
"""


def run_suite(spec: str, folder: Path, *arguments: str) -> tuple[ReportCard | None, str]:
    """The card of an adapter, and what pytest printed."""
    checkout = Path(__file__).resolve().parents[2]
    file = folder / "card.json"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *PLUGINS, "--adapter", spec, "--report-card", str(file), *arguments],
        cwd=folder,
        env={
            **os.environ,
            # The plugins of this checkout's own tests take longer to load than most checks to run.
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": os.pathsep.join((str(folder), str(checkout / "src"), str(checkout))),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return ReportCard.read(file) if file.exists() else None, done.stdout + done.stderr


def run_here(pytester: pytest.Pytester, spec: str, *arguments: str) -> tuple[ReportCard | None, str]:
    """The same in this process, on an adapter of `PLATFORMS`."""
    pytester.makepyfile(platforms=PLATFORMS)
    pytester.syspathinsert()
    file = pytester.path / "card.json"
    file.unlink(missing_ok=True)
    given = (*PLUGINS, "--adapter", spec, "--report-card", str(file), *arguments)
    done = pytester.runpytest_inprocess(*given)
    return ReportCard.read(file) if file.exists() else None, f"{done.stdout}\n{done.stderr}"


def test_an_adapter_that_keeps_every_promise_has_nothing_but_ticks(pytester: pytest.Pytester) -> None:
    card, printed = run_here(pytester, "platforms:MemoryPlatform")
    assert card is not None, printed
    assert [each.outcome for each in card.marks] == ["yes"] * len(ADAPTER_CHECKS), printed
    assert f"platforms:MemoryPlatform: {len(ADAPTER_CHECKS)} yes" in printed


def test_a_broken_promise_and_a_gap_are_on_the_card_with_their_reasons(pytester: pytest.Pytester) -> None:
    card, printed = run_here(pytester, "platforms:deaf", "-k", "flags")
    assert card is not None, printed
    assert card.marks[0].outcome == "no"
    assert card.marks[0].reason == "a mention of the bot is not marked"
    card, printed = run_here(pytester, "platforms:Gap", "-k", "adapter and edit")
    title = next(each.title for each in ADAPTER_CHECKS if each.name == "edit")
    assert card is not None, printed
    assert Mark("edit", title, "gap", "the API has no word for it") in card.marks


def test_what_is_no_platform_is_refused_in_one_line(pytester: pytest.Pytester) -> None:
    card, printed = run_here(pytester, "no_such:Thing")
    assert card is None
    assert "--adapter no_such:Thing: ModuleNotFoundError" in printed
    assert "Traceback" not in printed


def test_a_plain_run_of_pytest_imports_none_of_it() -> None:
    script = (
        "import sys, pytest; import holdfast.testing.adapter_plugin;"
        "print(sorted(name for name in sys.modules if name.startswith('holdfast.')))"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    plugins = ["holdfast.testing", "holdfast.testing.adapter_plugin", "holdfast.testing.provider_suite"]
    assert said.stdout.strip() == str(plugins)


@pytest.mark.parametrize("check", ADAPTER_CHECKS, ids=str)
def test_every_check_has_a_title_that_fits_a_line(check: object) -> None:
    assert len(str(check)) < 30
    assert len(getattr(check, "title", "")) in range(10, 100)
