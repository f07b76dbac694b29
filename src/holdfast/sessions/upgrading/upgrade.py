"""`StoreUpgrade`: says what an upgrade of a store's schema would do, and does it.

Opening a store brings its schema up to date too; this is for people who want to know before, and for the post
halves, which remove what only older programs use. `migrations.py` has the rules.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.core.clock import SystemClock
from holdfast.core.errors import StoreUnopenable
from holdfast.sessions.migrations import SchemaMark, Step, all_steps, pending_steps, steps_at_opening
from holdfast.sessions.sqlite.connection import SqliteFile, settled_path
from holdfast.sessions.sqlite.errors import translate
from holdfast.sessions.sqlite.schema import inspect_mark, open_database
from holdfast.sessions.store_address import require_driver, sqlite_path, unknown_address
from holdfast.sessions.upgrading.step_effects import Effect, effects_of


@dataclass(frozen=True)
class PlannedStep:
    """One step that has yet to run."""

    step: Step
    effects: list[Effect]


@dataclass(frozen=True)
class UpgradePlan:
    """What would be run now, and what only later."""

    location: str
    engine: str
    found: SchemaMark
    program: str
    """The last step that this program knows."""
    steps: list[PlannedStep]
    later: list[PlannedStep]
    """Post halves, for when no older program uses the store any more."""
    connected: dict[str, int]
    """Who is connected to a server just now, by the name that each program gives itself."""

    @property
    def serves(self) -> int:
        """The oldest schema that a program must know once `steps` have run."""
        mark = self.found
        for planned in self.steps:
            mark = mark.after(planned.step)
        return mark.serves

    @property
    def found_number(self) -> int:
        return 0 if self.found.applied is None else int(self.found.applied.split(".", maxsplit=1)[0])

    @property
    def is_rolling(self) -> bool:
        """Whether programs of the store's present schema may go on while the steps run, and afterwards."""
        return self.found.applied is not None and self.serves <= self.found_number


class StoreUpgrade:
    """The schema of one store, by its address. `steps` are those of this release, if no others are given."""

    def __init__(self, url: str, *, patience: float, steps: Sequence[Step] | None = None) -> None:
        path = sqlite_path(url)
        self._store: _OnSqlite | _OnPostgres
        if path is not None:
            self._store = _OnSqlite(path, patience)
        elif url.startswith(("postgresql://", "postgres://")):
            require_driver()
            self._store = _OnPostgres(url, patience)
        else:
            raise unknown_address(url)
        self._steps = steps

    def plan(self) -> UpgradePlan:
        """What `run` would do. Changes nothing; raises where the store can't be upgraded by this program."""
        store = self._store
        mark, connected = store.look()
        pending = pending_steps(store.engine, mark, store.location, self._steps)
        known = all_steps(store.engine) if self._steps is None else self._steps
        now = steps_at_opening(pending, mark)
        # With nothing else left to do, what was left for later is next.
        now, later = (now, pending[len(now) :]) if now else (pending, [])
        return UpgradePlan(
            store.location,
            store.engine,
            mark,
            known[-1].name,
            [PlannedStep(step, effects_of(store.engine, step.sql)) for step in now],
            [PlannedStep(step, effects_of(store.engine, step.sql)) for step in later],
            connected,
        )

    def run(self) -> UpgradePlan:
        """Run what `plan` shows, in one transaction; returns what was run."""
        plan = self.plan()
        if plan.steps:
            is_last = plan.found.applied is None or bool(plan.steps[0].step.half)
            self._store.migrate(self._steps, is_last=is_last and not plan.later)
        return plan


class _OnSqlite:
    engine = "sqlite"

    def __init__(self, path: str, patience: float) -> None:
        self._file = SqliteFile(settled_path(path), SystemClock(), patience, create=False)
        self.location = self._file.path

    def look(self) -> tuple[SchemaMark, dict[str, int]]:
        if not Path(self.location).is_file():
            raise StoreUnopenable(self.location, "there is no such file; the first conversation makes it")
        try:
            return inspect_mark(self._file), {}
        except sqlite3.Error as error:
            raise translate(error, self.location, self._file.patience) from error

    def migrate(self, steps: Sequence[Step] | None, *, is_last: bool) -> None:
        open_database(self._file, steps=steps, is_last=is_last).close()


class _OnPostgres:
    engine = "postgres"

    def __init__(self, url: str, patience: float) -> None:
        from holdfast.sessions.postgres.address import Address

        self._address = Address.parse(url)
        self._patience = patience
        self.location = self._address.location

    def look(self) -> tuple[SchemaMark, dict[str, int]]:
        from holdfast.sessions.postgres.engine import prepared
        from holdfast.sessions.postgres.schema import connected_programs, read_mark, refuse_unfit

        def work(connection: Any) -> tuple[SchemaMark, dict[str, int]]:  # noqa: ANN401 - the driver may be missing
            refuse_unfit(connection, self.location)
            return read_mark(connection), connected_programs(connection)

        return prepared(self._address, self._patience, work)

    def migrate(self, steps: Sequence[Step] | None, *, is_last: bool) -> None:
        from holdfast.sessions.postgres.engine import prepared
        from holdfast.sessions.postgres.schema import migrate

        prepared(
            self._address,
            self._patience,
            lambda connection: migrate(connection, self.location, steps=steps, is_last=is_last),
        )
