"""The result: rows with control, Holdfast, ratio and goal, printed and kept as a page of the docs."""

import os
import platform
import sqlite3
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.rounds import Comparison

HEAD = ("what", "control", "Holdfast", "ratio", "middle 80 %", "goal", "")

PAGE = """# Benchmarks

The session store beside a bare `sqlite3` control, in one run. `make bench` measures anew and writes this
page; don't edit it.

The control is what one would write by hand: WAL, `synchronous=FULL`, a table of messages with a unique
index on (session, seq), one external-content FTS5 index with Holdfast's tokenizer filled by a trigger, one
commit per append, no checks. Both store the same texts: two messages per turn, of about 200 and 800
characters. They take turns round by round; the table gives medians, the ratio Holdfast / control, and
between which values the middle 80 % of the rounds lie. Compare ratios: times are this machine's.

Holdfast indexes for search in batches, behind the appends. Unless a row says otherwise, its times and
CPU include bringing the index up to date before the round ends.

PostgreSQL is measured on a server of its own that waits for the disk at each commit and writes whole pages
into its WAL after a checkpoint, as users have it; each group of rows says what that server tells of itself.

Chat platforms under load have a page of their own, which `make bench-chats` writes.

{facts}

{table}

## How memory grows

From 1,000 to 1,000,000 passages; [memory-growth.md](memory-growth.md) has the numbers.

![One recall](memory-growth-recall.svg)

![Storing one passage](memory-growth-storing.svg)

![Size](memory-growth-bytes.svg)
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One line. `met` is None where there is no goal."""

    what: str
    control: str
    holdfast: str
    ratio: str
    spread: str = ""
    goal: str = ""
    met: bool | None = None

    def cells(self) -> tuple[str, ...]:
        verdict = {None: "", True: "met", False: "**missed**"}[self.met]
        return (
            self.what,
            self.control,
            self.holdfast,
            self.ratio,
            self.spread,
            self.goal,
            verdict,
        )


def row(
    what: str,
    unit: str,
    compared: Comparison,
    *,
    at_most: float | None = None,
    at_least: float | None = None,
) -> Row:
    """A comparison as a line, judged by its goal."""
    goal, met = "", None
    if at_most is not None:
        goal, met = f"≤ {at_most:g}", compared.ratio <= at_most
    if at_least is not None:
        goal, met = f"≥ {at_least:g}", compared.ratio >= at_least
    low, high = compared.spread
    return Row(
        what,
        f"{number(compared.control)} {unit}",
        f"{number(compared.holdfast)} {unit}",
        f"{compared.ratio:.2f}",
        f"{low:.2f} to {high:.2f}" if high > low else "",
        goal,
        met,
    )


def number(value: float) -> str:
    """Three digits that count."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.{1 if value >= 10 else 2 if value >= 1 else 3}f}"


def render(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    return markdown_table(HEAD, [each.cells() for each in rows])


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table, its columns aligned for reading as plain text."""
    lines = [[str(cell) for cell in line] for line in (heads, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    padded = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in lines
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([padded[0], rule, *padded[1:]])


def facts(folder: Path, before: tuple[float, float], after: tuple[float, float]) -> str:
    """Where this was measured. An fsync is the floor under every commit: a group shares one."""
    return (
        f"Machine: {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end, "
        f"Python {sys.version.split()[0]}, SQLite {sqlite3.sqlite_version}, "
        f"{platform.system()} {platform.machine()}, files on {filesystem(folder)}.\n"
        f"An fsync of one 4 KiB page: {before[0]:.2f} ms before (median; worst {before[1]:.1f}), "
        f"{after[0]:.2f} ms after (worst {after[1]:.1f}).\n"
        "The rates of threads and processes hang on it: the dearer an fsync, the more a group saves."
    )


def filesystem(folder: Path) -> str:
    """The kind of file system that holds `folder`, where the machine tells."""
    mounts = Path("/proc/self/mounts")
    if not mounts.exists():
        return "an unknown file system"
    place = folder.resolve()
    entries = (line.split()[1:3] for line in mounts.read_text(encoding="utf-8").splitlines())
    fitting = [(len(mount), kind) for mount, kind in entries if place.is_relative_to(mount)]
    return max(fitting)[1] if fitting else "an unknown file system"
