"""The named queries: `.sql` files read by aiosql, the shared ones and an engine's own.

Statements live in `sql/`; see docs/decisions/0002 for why there is no query builder.
"""

from functools import cache
from importlib.resources import files
from typing import Any

import aiosql


@cache
def load_queries(engine: str, adapter: str) -> Any:  # noqa: ANN401 - aiosql's are dynamic
    """All queries of one engine ('sqlite' or 'postgres') for one aiosql adapter."""
    root = files("holdfast.sessions").joinpath("sql")
    texts = [
        source.read_text(encoding="utf-8")
        for folder in ("shared", engine)
        for source in sorted(root.joinpath(folder).iterdir(), key=lambda entry: entry.name)
        if source.name.endswith(".sql")
    ]
    return aiosql.from_str("\n\n".join(texts), adapter)
