"""A pytest plugin: `pytest --adapter module:MyPlatform` runs the contract suite and prints a report card.

Without this option it does nothing. pytest imports this file in every run where Holdfast is installed, so it
imports everything else only when needed. `adapter_suite.py` has the checks.
"""

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from holdfast.testing.provider_suite import marked

if TYPE_CHECKING:
    from holdfast.testing.adapter_suite import AdapterCheck

TESTS = Path(__file__).parent / "adapter_checks" / "check_adapter.py"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("holdfast-adapters", "contract suite for chat adapters")
    group.addoption(
        "--adapter",
        metavar="MODULE:NAME",
        help="run Holdfast's contract suite over the adapter of this ChatPlatform (a class or function)",
    )
    group.addoption(
        "--adapter-patience",
        metavar="SECONDS",
        type=float,
        default=20.0,
        help="how long a check waits for what must come (20)",
    )


def pytest_configure(config: pytest.Config) -> None:
    spec = config.getoption("--adapter")
    if spec:
        config.pluginmanager.register(_Suite(config, spec), "holdfast-adapter-suite")


class _Suite:
    """The hooks of a run with `--adapter`."""

    def __init__(self, config: pytest.Config, spec: str) -> None:
        from holdfast.testing.adapter_suite import gaps_of, load_platform
        from holdfast.testing.report_card import ReportCard

        self.spec = spec
        self.patience: float = config.getoption("--adapter-patience")
        try:
            self.make_platform = load_platform(spec)
        except (ImportError, AttributeError, ValueError) as cause:
            raise pytest.UsageError(f"--adapter {spec}: {type(cause).__name__}: {cause}") from cause
        self.gaps = gaps_of(self.make_platform)
        self.card: ReportCard = ReportCard(spec)
        named = config.args_source == pytest.Config.ArgsSource.ARGS
        config.args[:] = [*(config.args if named else []), str(TESTS)]

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            check = _check_of(item)
            if check is not None and check.name in self.gaps:
                item.add_marker(pytest.mark.xfail(reason=self.gaps[check.name], strict=False))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        check = _check_of(item)
        if check is not None and (report.when == "call" or report.outcome != "passed"):
            self.card.add(marked((check.name, check.title), report))
        return report

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section(f"report card: {self.spec}")
        for line in self.card.lines():
            terminalreporter.write_line(line)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        file = session.config.getoption("--report-card", default=None)
        if file:
            self.card.write(Path(file))


def _check_of(item: pytest.Item) -> "AdapterCheck | None":
    """The check that a test tries; None for any other test."""
    if item.path != TESTS or not isinstance(item, pytest.Function):
        return None
    return cast("AdapterCheck", item.callspec.params["check"])
