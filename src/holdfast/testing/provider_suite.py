"""A pytest plugin: `pytest --provider mypackage:MyProvider` runs the contract suite and prints a report card.

Without this option it does nothing. pytest imports this file in every run where Holdfast is installed, so it
imports everything else only when needed. The checks are in `provider_checks/`.
"""

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from holdfast.testing.report_card import Mark

CHECKS = Path(__file__).parent / "provider_checks"
MAX_REASON_LENGTH = 300


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("holdfast", "contract suite for memory providers")
    group.addoption(
        "--provider",
        metavar="MODULE:NAME",
        help="run Holdfast's contract suite over this provider class, factory or ProviderCase",
    )
    group.addoption(
        "--provider-config",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a value of the provider's configuration; as often as needed",
    )
    group.addoption(
        "--provider-patience",
        metavar="SECONDS",
        type=float,
        default=60.0,
        help="how long a check waits for what must come (60)",
    )
    group.addoption("--report-card", metavar="FILE", help="also write the report card to a JSON file")


def pytest_configure(config: pytest.Config) -> None:
    spec = config.getoption("--provider")
    if spec:
        config.pluginmanager.register(_Suite(config, spec), "holdfast-provider-suite")


class _Suite:
    """The hooks of a run with `--provider`."""

    def __init__(self, config: pytest.Config, spec: str) -> None:
        from holdfast.testing.provider_case import gaps_of, load_case
        from holdfast.testing.report_card import ReportCard

        pairs = [each.partition("=") for each in config.getoption("--provider-config")]
        self.spec = spec
        self.patience: float = config.getoption("--provider-patience")
        self.values = {key: value for key, _, value in pairs}
        try:
            self.make_case = load_case(spec, self.values)
        except (ImportError, AttributeError, ValueError) as cause:
            raise pytest.UsageError(f"--provider {spec}: {type(cause).__name__}: {cause}") from cause
        self.gaps = gaps_of(self.make_case)
        self.card: ReportCard = ReportCard(spec)
        named = config.args_source == pytest.Config.ArgsSource.ARGS
        config.args[:] = [*(config.args if named else []), *sorted(map(str, CHECKS.glob("check_*.py")))]

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            name, _ = _check_of(item) or ("", "")
            if name in self.gaps:
                item.add_marker(pytest.mark.xfail(reason=self.gaps[name], strict=False))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        check = _check_of(item)
        if check and (report.when == "call" or report.outcome != "passed"):
            self.card.add(marked(check, report))
        return report

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section(f"report card: {self.spec}")
        for line in self.card.lines():
            terminalreporter.write_line(line)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        file = session.config.getoption("--report-card")
        if file:
            self.card.write(Path(file))


def _check_of(item: pytest.Item) -> tuple[str, str] | None:
    """The name and title of a check; None for any other test."""
    found: tuple[str, str] | None = getattr(getattr(item, "function", None), "provider_check", None)
    return found


def marked(check: tuple[str, str], report: pytest.TestReport) -> "Mark":
    """The line of a report card for the test of a check, by its name and title."""
    from holdfast.testing.report_card import Mark

    if report.passed:
        return Mark(*check, "yes")
    if hasattr(report, "wasxfail"):
        return Mark(*check, "gap", report.wasxfail.removeprefix("reason: "))
    if report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        return Mark(*check, "not tried", reason.removeprefix("Skipped: "))
    crash = getattr(report.longrepr, "reprcrash", None)
    message = crash.message if crash is not None else str(report.longrepr)
    return Mark(*check, "no", message.partition("\n")[0].removeprefix("AssertionError: ")[:MAX_REASON_LENGTH])
