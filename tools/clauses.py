"""The clauses of docs/guarantees.md and the tests that prove them, as a pytest plugin.

A test names its clauses with `@pytest.mark.clause("C5")` or at the start of its docstring
("C5: a second child is refused"). An unknown clause fails the collection. `pytest -m clause`
ends with the table, and `make guarantees` prints it alone (see `tools/guarantees.py`).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "guarantees.md"

_PROMISE = re.compile(r"^## (?P<letter>[A-Z]) — (?P<title>.+)$")
_CLAUSE = re.compile(r"^- (?P<id>[A-Z]\d+) (?P<text>.+)$")
_DOCSTRING_IDS = re.compile(r"\s*(?P<ids>[A-Z]\d+(?:, [A-Z]\d+)*): ")


@dataclass(frozen=True)
class Clause:
    id: str
    promise: str
    text: str


@dataclass
class ClauseTable:
    """Which tests prove which clause; a test maps to the parameters it runs with."""

    clauses: dict[str, Clause]
    tests: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    def add(self, clause_id: str, test: str, parameters: str | None) -> None:
        runs = self.tests.setdefault(clause_id, {}).setdefault(test, [])
        if parameters is not None:
            runs.append(parameters)

    def unproven(self) -> list[str]:
        """The clauses that no test names."""
        return [clause_id for clause_id in self.clauses if not self.tests.get(clause_id)]

    def lines(self, width: int = 100) -> Iterator[str]:
        promise = ""
        for clause in self.clauses.values():
            if clause.promise != promise:
                promise = clause.promise
                yield from ("", promise)
            tests = self.tests.get(clause.id, {})
            words = _first_words(clause.text, width - len("  M10   NO TEST YET"))
            yield (f"  {clause.id:<4}{words}" if tests else f"  {clause.id:<4}{words:<80} NO TEST YET")
            for test, runs in sorted(tests.items()):
                yield f"        {test}{_shown(runs)}"
        proven = len(self.clauses) - len(self.unproven())
        yield from ("", f"{proven} of {len(self.clauses)} clauses have tests")


def read_clauses(document: str) -> dict[str, Clause]:
    """Read the `## M — title` headings and the wrapped `- M1 text` items under them."""
    clauses: dict[str, Clause] = {}
    promise = ""
    current: str | None = None
    for line in document.splitlines():
        if heading := _PROMISE.match(line):
            promise = f"{heading['letter']} — {heading['title']}"
            current = None
        elif promise and (item := _CLAUSE.match(line)):
            current = item["id"]
            clauses[current] = Clause(current, promise, item["text"])
        elif current and line.startswith("  "):
            clause = clauses[current]
            clauses[current] = Clause(current, clause.promise, f"{clause.text} {line.strip()}")
        else:
            current = None
    return clauses


def _first_words(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    return text[:width].rsplit(" ", 1)[0].rstrip(",;:.") + " …"


_MOST_PARAMETERS_SHOWN = 4


def _shown(runs: list[str]) -> str:
    if not runs:
        return ""
    if len(runs) > _MOST_PARAMETERS_SHOWN:
        return f" [{len(runs)} cases]"
    return f" [{', '.join(runs)}]"


def _docstring_ids(item: pytest.Item) -> list[str]:
    docstring = getattr(getattr(item, "obj", None), "__doc__", None) or ""
    named = _DOCSTRING_IDS.match(docstring)
    return named["ids"].split(", ") if named else []


def _named_clauses(item: pytest.Item) -> list[str]:
    marked = [str(name) for mark in item.iter_markers("clause") for name in mark.args]
    return list(dict.fromkeys([*marked, *_docstring_ids(item)]))


TABLE = pytest.StashKey[ClauseTable]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Fill the table before any test is deselected, and refuse clauses that do not exist."""
    table = ClauseTable(read_clauses(DOCUMENT.read_text(encoding="utf-8")))
    unknown = []
    for item in items:
        for clause_id in _named_clauses(item):
            if clause_id not in table.clauses:
                unknown.append(f"{item.nodeid}: {clause_id} is no clause of docs/guarantees.md")
                continue
            test, _, parameters = item.nodeid.partition("[")
            table.add(clause_id, test, parameters.removesuffix("]") or None)
            if item.get_closest_marker("clause") is None:
                item.add_marker(pytest.mark.clause(clause_id))
    if unknown:
        raise pytest.UsageError("\n".join(unknown))
    config.stash[TABLE] = table


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """End `pytest -m clause` with the table."""
    config = terminalreporter.config
    table = config.stash.get(TABLE, None)
    if table is None or config.getoption("markexpr") != "clause":
        return
    terminalreporter.section("guarantees")
    for line in table.lines():
        terminalreporter.write_line(line)
