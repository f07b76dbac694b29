"""What a migration does to tables that are in use, told from its statements.

Comments, bodies of functions and of triggers are left out; what is left is cut into statements. A table that
the same step makes is in nobody's use, so what is done to it is no effect on others.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

BODIES = re.compile(r"--[^\n]*|\$(\w*)\$.*?\$\1\$|\bbegin\b.*?\bend(?=;)", flags=re.DOTALL | re.IGNORECASE)
TABLE = r"(?:if (?:not )?exists )?\"?(\w+)\"?"
NEW_TABLE = re.compile(rf"create table {TABLE}")
SHORT = "a short lock"


@dataclass(frozen=True)
class Effect:
    """What happens to one table, and whether its users wait for longer than a moment."""

    what: str
    is_long: bool


def effects_of(engine: str, sql: str) -> list[Effect]:
    """The effects of one step, each once, in the order of its statements."""
    statements = [" ".join(each.lower().split()) for each in BODIES.sub(" ", sql).split(";")]
    new = {found[1] for each in statements if (found := NEW_TABLE.match(each))}
    effects = [effect for each in statements if each for effect in _effects(engine, each, new)]
    return list(dict.fromkeys(effects))


def _effects(engine: str, statement: str, new: set[str]) -> Iterator[Effect]:
    if found := NEW_TABLE.match(statement):
        yield Effect(f"makes the table {found[1]}", is_long=False)
    for pattern, effect in RULES:
        found = re.search(pattern, statement)
        if found and found[1] not in new:
            yield effect(engine, found[1], statement)


def _column_added(engine: str, table: str, statement: str) -> Effect:
    # PostgreSQL computes a stored column for every row; a constant default is kept once, for the table.
    if engine == "postgres" and (" stored" in statement or "default store_now" in statement):
        return Effect(
            f"adds a column to {table} and writes every row anew, with the table locked", is_long=True
        )
    return Effect(f"adds a column to {table} ({SHORT}, no row is written)", is_long=False)


def _index_built(engine: str, table: str, _: str) -> Effect:
    who = f"writes to {table} wait" if engine == "postgres" else "all writes wait"
    return Effect(f"builds an index on {table}; {who} until all its rows are read", is_long=True)


def _short(verb: str) -> Callable[[str, str, str], Effect]:
    return lambda _, table, __: Effect(f"{verb} {table} ({SHORT})", is_long=False)


def _long(verb: str) -> Callable[[str, str, str], Effect]:
    return lambda _, table, __: Effect(f"{verb} {table}, which takes as long as it has rows", is_long=True)


RULES: list[tuple[str, Callable[[str, str, str], Effect]]] = [
    (rf"^alter table {TABLE} add column", _column_added),
    (rf"^alter table {TABLE} rename", _short("renames a part of")),
    (rf"^alter table {TABLE} (?:drop|alter)", _short("changes a part of")),
    (rf"^alter table {TABLE} add (?!column)", _long("checks every row of")),
    (r"^create (?:unique )?index .*? on (\w+)", _index_built),
    (r"^create (?:constraint )?trigger .*? on (\w+)", _short("adds a trigger to")),
    (rf"^drop table {TABLE}", _short("removes the table")),
    (r"^(?:with .*?\) )?update (\w+)", _long("changes rows of")),
    (r"^(?:with .*?\) )?delete from (\w+)", _long("deletes rows of")),
    (r"^insert into \w+ .*?\bfrom (\w+)", _long("copies rows of")),
]
