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


def main() -> int:
    """Print the table alone, and fail for a clause without a test.

    When the collection fails, print what pytest said about it.
    """
    reader = _TableReader()
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = pytest.main(["--collect-only", "-qq"], plugins=[reader])
    if code != pytest.ExitCode.OK or reader.table is None:
        print(said.getvalue(), file=sys.stderr)
        return int(code) or 1
    print("\n".join(reader.table.lines()).lstrip("\n"))
    return 1 if reader.table.unproven() else 0


if __name__ == "__main__":
    sys.exit(main())
