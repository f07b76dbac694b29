"""`holdfast usage`: how many tokens were used and what they cost."""

from dataclasses import asdict
from decimal import Decimal
from typing import Annotated

from cyclopts import Parameter

from holdfast.cli.output import show, show_json, width
from holdfast.core.clean_text import one_line
from holdfast.core.clock import SystemClock
from holdfast.host.usage_reports import Grouping, UsageTotal, usage_report
from holdfast.wiring import existing_store, load_settings

Json = Annotated[bool, Parameter(name="--json", negative="")]


def usage(*, days: int = 30, by: Grouping = "day", as_json: Json = False) -> None:
    """Show how many tokens were used and what they cost, subagents and summaries included.

    A price comes from the settings, from OpenRouter's list, or from a table of well-known models; a cost that
    is not known is shown as unknown.

    Parameters
    ----------
    days
        Today and the days before it.
    by
        What each line is about.
    as_json
        Print JSON.

    """
    with existing_store(load_settings()) as db:
        report = usage_report(db, SystemClock().now(), days, by)
    if as_json:
        show_json(asdict(report))
        return
    for each in report.groups:
        show(one_line(f"{_numbers(each.total)}  {each.title}", width(), squeeze=False))
    if not report.groups:
        show("Nothing was used in this time.")
        return
    show(f"{_numbers(report.total)}  in all")


def _numbers(total: UsageTotal) -> str:
    return f"{_cost(total):>16}  {total.input_tokens:>12,} in  {total.output_tokens:>10,} out"


def _cost(total: UsageTotal) -> str:
    known = f"${Decimal(total.known_cost):.4f}"
    if total.cost is not None:
        return known
    return f"{known}+unknown" if Decimal(total.known_cost) else "unknown"
