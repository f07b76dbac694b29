"""`StoreMove`: copies a whole store into an empty one, in steps that a later run goes on from.

The old store refuses every write from the moment the move begins (triggers do it, so no process can miss it),
and goes on to be read. Each step writes its rows, their sum and where it stands in one transaction of the new
store, which refuses writes by anybody else until all rows were read back and have the same sums.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from holdfast.core.errors import InvalidInput, SchemaTooNew, StoreFault
from holdfast.sessions.bulk_dialect import allowed_writes
from holdfast.sessions.contract import Engine, Transaction
from holdfast.sessions.migrations import SCHEMA, all_steps, parse_step
from holdfast.sessions.moving.moved_tables import TABLES, MovedTable

BATCH = 1_000
STATE = "move"
"""The row of `meta` that says how a move stands: at both ends."""
SUM_BYTES = 16

Tell = Callable[[str, int, int], object]
"""Called with what is done, how many rows of it, and how many there are."""


@dataclass(frozen=True, slots=True)
class MovedRows:
    """How many rows of a table were moved, and their sum, which does not depend on their order."""

    count: int = 0
    sum: int = 0

    def plus(self, rows: Sequence[Sequence[object]]) -> "MovedRows":
        total = self.sum
        for row in rows:
            text = repr(tuple(row)).encode("utf-8", "surrogatepass")
            total += int.from_bytes(hashlib.blake2b(text, digest_size=SUM_BYTES).digest())
        return MovedRows(self.count + len(rows), total % (1 << 8 * SUM_BYTES))


class StoreMove:
    """One move, from the store of one engine to that of another. Blocks; for a command."""

    def __init__(self, source: Engine, target: Engine, tell: Tell = lambda *_: None) -> None:
        self._source = source
        self._target = target
        self._tell = tell

    def run(self) -> dict[str, MovedRows]:
        """Move everything, or go on with what an earlier run has left; returns what each table had.

        Raises `InvalidInput`, with nothing changed, where a turn runs, the new store has content, or one of
        the two takes part in another move. `StoreFault` says that a table was not copied faithfully.
        """
        if self._source.location == self._target.location:
            raise InvalidInput("a store can't be moved to itself; nothing was changed")
        self._target.read(self._require_fit)
        self._source.write(self._close_source)
        state = self._target.write(self._open_target)
        moved = {name: MovedRows(*found) for name, found in state["tables"].items()}
        if state.get("done"):
            return moved  # an earlier run has finished it, and could not say so
        for table in TABLES:
            at = state["at"] if state["at"][:1] == [table.name] else [table.name]
            if table.name not in moved or len(at) > 1:
                moved[table.name] = self._copy(table, at[1:], moved)
        self._verify(moved)
        self._target.write(lambda tx: self._finish(tx, moved))
        self._tell("search index", 0, 0)
        self._target.refresh_search()
        return moved

    # the two ends

    def _require_fit(self, tx: Transaction) -> None:
        """The new store is empty, or an earlier run has begun to fill it from this one."""
        _refuse_newer(tx, self._target.location)
        state = read_state(tx)
        if state is None or (state.get("done") and not self._is_source_closed()):
            if filled := [table.name for table in TABLES[:-1] if table.count(tx)]:
                raise InvalidInput(
                    f"{self._target.location} has content already ({filled[0]}); nothing was moved. "
                    "A store is moved into an empty one."
                )
        elif state.get("from") != self._source.location:
            raise InvalidInput(
                f"{self._target.location} takes part in another move ({_other_end(state)}); nothing was moved"
            )

    def _is_source_closed(self) -> bool:
        """Whether a run before this one has begun: nothing was written to the old store since."""
        state = self._source.read(read_state)
        return state is not None and state.get("to") == self._target.location

    def _close_source(self, tx: Transaction) -> None:
        _refuse_newer(tx, self._source.location)
        state = read_state(tx)
        if state is not None and not state.get("done"):
            if state.get("to") != self._target.location:
                raise InvalidInput(
                    f"{self._source.location} takes part in another move ({_other_end(state)}); nothing was "
                    "changed. `holdfast store unlock` ends that."
                )
            return
        running = tx.connection.execute("select count(*) from turns where state = 'running'").fetchone()[0]
        if running:
            turns = "1 turn is" if running == 1 else f"{running} turns are"
            raise InvalidInput(
                f"{turns} open in {self._source.location}; nothing was changed. Wait, or stop them; "
                "then move the store."
            )
        write_state(tx, {"to": self._target.location})
        tx.dialect.bulk.refuse_writes(
            tx,
            [table.name for table in TABLES],
            f"It is being moved, or was moved, to {self._target.location}: use that one. "
            "`holdfast store unlock` lets this one be written again.",
        )

    def _open_target(self, tx: Transaction) -> dict[str, Any]:
        state = read_state(tx)
        if state is None:
            self._require_fit(tx)
            state = {"from": self._source.location, "tables": {}, "at": []}
            # What opening a store leaves in the new one: the names of processes that looked at it.
            tx.connection.execute("delete from leases")
            tx.dialect.bulk.refuse_writes(
                tx,
                [table.name for table in TABLES],
                f"The move from {self._source.location} into it is not finished: run `holdfast store move` "
                "again.",
            )
            write_state(tx, state)
        return state

    def _finish(self, tx: Transaction, moved: dict[str, MovedRows]) -> None:
        tx.dialect.bulk.allow_writes(tx, [table.name for table in TABLES])
        tx.dialect.bulk.continue_numbers(tx, [table.name for table in TABLES if table.key == ("id",)])
        self._note(tx, moved, done=True)

    def _note(self, tx: Transaction, moved: dict[str, MovedRows], **more: object) -> None:
        """Write down in the new store how far the move has come."""
        tables = {name: [each.count, each.sum] for name, each in moved.items()}
        write_state(tx, {"from": self._source.location, "tables": tables, "at": [], **more})

    # the rows

    def _copy(self, table: MovedTable, place: list[object], moved: dict[str, MovedRows]) -> MovedRows:
        """Copy a table from this place on; `moved` has what was copied before."""
        total = self._source.read(table.count)
        columns = self._source.read(table.moved_columns)
        done = moved.get(table.name, MovedRows())
        while True:
            self._tell(table.name, done.count, total)
            found = self._source.read(partial(table.rows_after, place=place, most=BATCH))
            rows = [each[table.place_size :] for each in found]
            place = list(found[-1][: table.place_size]) if found else []
            done = done.plus(rows)
            known = moved | {table.name: done}
            self._target.write(
                partial(self._add, table=table, columns=columns, rows=rows, known=known, place=place)
            )
            if len(found) < BATCH:
                return done

    def _add(
        self,
        tx: Transaction,
        table: MovedTable,
        columns: Sequence[str],
        rows: Sequence[Sequence[object]],
        known: dict[str, MovedRows],
        place: list[object],
    ) -> None:
        """One step: the rows, and how far the move has come."""
        bulk = tx.dialect.bulk
        with allowed_writes(tx):
            bulk.add_rows(tx, table.name, columns, rows)
            if table.set_by_triggers:
                sets = ", ".join(f"{each} = {bulk.mark}" for each in table.set_by_triggers)
                wanted = [columns.index(each) for each in (*table.set_by_triggers, "id")]
                bulk.run_many(
                    tx,
                    f"update {table.name} set {sets} where id = {bulk.mark}",  # noqa: S608
                    [tuple(row[each] for each in wanted) for row in rows],
                )
            self._note(tx, known, at=[table.name, *place] if len(rows) == BATCH else [])

    def _verify(self, moved: dict[str, MovedRows]) -> None:
        """Read everything back; raises `StoreFault` where a table differs."""
        for table in TABLES:
            expected, found, place = moved[table.name], MovedRows(), list[object]()
            if self._source.read(table.count) != expected.count:
                raise StoreFault(
                    self._source.location,
                    f"{table.name} has other rows than were read; it was written meanwhile",
                )
            while True:
                self._tell(f"checking {table.name}", found.count, expected.count)
                part = self._target.read(partial(table.rows_after, place=place, most=BATCH))
                found = found.plus([each[table.place_size :] for each in part])
                if len(part) < BATCH:
                    break
                place = list(part[-1][: table.place_size])
            if found != expected:
                raise StoreFault(
                    self._target.location,
                    f"{table.name} was not copied faithfully: {found.count} rows of {expected.count}; "
                    f"{self._source.location} has everything",
                )


def unlock_store(engine: Engine) -> bool:
    """Let a store that was moved, or was to be, be written again; False when nothing kept it from that."""

    def work(tx: Transaction) -> bool:
        state = read_state(tx)
        if state is None or state.get("done"):
            return False
        if "from" in state:
            raise InvalidInput(
                f"{engine.location} was filled in part only, from {state['from']}; nothing was changed. Run "
                "`holdfast store move` again to go on, or delete it."
            )
        tx.dialect.bulk.allow_writes(tx, [table.name for table in TABLES])
        forget_state(tx)
        return True

    return engine.write(work)


def _refuse_newer(tx: Transaction, location: str) -> None:
    """A store of a newer schema may hold what this program does not know of, and would leave behind."""
    applied, known = str(tx.queries.meta_value(key=SCHEMA)), all_steps("sqlite")[-1]
    if parse_step(applied) > (known.number, known.half):
        raise SchemaTooNew(location, applied, known.name)


def read_state(tx: Transaction) -> dict[str, Any] | None:
    row = tx.queries.meta_value(key=STATE)
    return None if row is None else json.loads(row)


def write_state(tx: Transaction, state: dict[str, Any]) -> None:
    tx.queries.set_meta(key=STATE, value=json.dumps(state))


def forget_state(tx: Transaction) -> None:
    tx.queries.forget_meta(key=STATE)


def _other_end(state: dict[str, Any]) -> str:
    return f"to {state['to']}" if "to" in state else f"from {state.get('from')}"
