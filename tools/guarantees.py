"""Print the clauses of docs/guarantees.md with their tests: `make guarantees`.

Collects the tests without running them. The table itself is made by `tools/clauses.py`.
"""

import contextlib
import io
import sys

import pytest

from tools.clauses import TABLE, ClauseTable


class _TableReader:
    table: ClauseTable | None = None

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.table = session.config.stash.get(TABLE, None)


class CollectionFailed(Exception):
    """The tests could not be collected; the message is what pytest said."""


def collect() -> ClauseTable:
    """The clauses with their tests. Raises `CollectionFailed`."""
    reader = _TableReader()
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = pytest.main(["--collect-only", "-qq"], plugins=[reader])
    if code != pytest.ExitCode.OK or reader.table is None:
        raise CollectionFailed(said.getvalue())
    return reader.table


def main() -> int:
    """Print the table alone, and fail for a clause without a test."""
    try:
        table = collect()
    except CollectionFailed as cause:
        print(cause, file=sys.stderr)
        return 1
    print("\n".join(table.lines()).lstrip("\n"))
    return 1 if table.unproven() else 0


if __name__ == "__main__":
    sys.exit(main())
