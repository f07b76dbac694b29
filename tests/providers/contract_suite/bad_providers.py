"""Providers that each break one promise, so that the suite is seen to notice."""

import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from holdfast.memory import CompletedTurn, MemoryProvider
from holdfast.testing import ProviderCase
from holdfast.testing.provider_case import Health


class Good(MemoryProvider):
    """Keeps its turns in a table, by their keys; its backend is down while a file says so."""

    name = "good"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.closed = False

    def is_available(self) -> bool:
        return True

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        return []

    def initialize(self, session_id: str, **kwargs: object) -> None:
        with closing(self.open()) as db, db:
            db.execute("create table if not exists turns (no integer primary key, key unique, said text)")

    def sync_turns(self, turns: Sequence[CompletedTurn]) -> None:
        self.keep([(turn.key, turn.user_content) for turn in turns])

    def keep(self, rows: Sequence[tuple[str, str]]) -> None:
        with closing(self.open()) as db, db:
            db.executemany("insert or ignore into turns (key, said) values (?, ?)", rows)

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        with closing(self.open()) as db:
            kept = db.execute("select said from turns order by no").fetchall()
        last = query.rsplit(maxsplit=1)[-1].strip(".")
        return "\n".join(said for (said,) in kept if last in said)

    def shutdown(self) -> None:
        self.closed = True

    def open(self) -> sqlite3.Connection:
        health = self.folder / "health"
        state = health.read_text() if health.exists() else "well"
        if self.closed or state == "down":
            raise ConnectionError("closed or down")
        if state == "slow":
            threading.Event().wait(0.5)
        if state == "wedged":
            threading.Event().wait(60)
        return sqlite3.connect(self.folder / "kept.db", timeout=5)


class Doubling(Good):
    def keep(self, rows: Sequence[tuple[str, str]]) -> None:
        with closing(self.open()) as db, db:
            db.executemany("insert into turns (said) values (?)", [(said,) for _, said in rows])


class TellsByWords(Good):
    def keep(self, rows: Sequence[tuple[str, str]]) -> None:
        super().keep([(said, said) for _, said in rows])


class Swallowing(Good):
    def keep(self, rows: Sequence[tuple[str, str]]) -> None:
        with suppress(ConnectionError):
            super().keep(rows)


class Buffering(Good):
    """Says that it has a turn, and keeps it in memory until it is shut down."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.buffer: list[tuple[str, str]] = []

    def keep(self, rows: Sequence[tuple[str, str]]) -> None:
        self.buffer += rows
        if len(self.buffer) > 50:
            super().keep(self.buffer)

    def shutdown(self) -> None:
        super().keep(self.buffer)
        super().shutdown()


class Reversing(Good):
    def keep(self, rows: Sequence[tuple[str, str]]) -> None:
        super().keep(rows[::-1])


class ThreadPerCall(Good):
    def keep(self, rows: Sequence[tuple[str, str]]) -> None:
        super().keep(rows)
        threading.Thread(target=lambda: threading.Event().wait(20), daemon=True).start()


class StuckAtTheEnd(Good):
    def shutdown(self) -> None:
        threading.Event().wait(30)


class Leaking(Good):
    """Keeps one recall for all sessions."""

    waiting = ""

    def queue_prefetch(self, query: str, *, session_id: str = "") -> None:
        self.waiting = super().prefetch(query)

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        return self.waiting or super().prefetch(query)


class Ascii(Good):
    def keep(self, rows: Sequence[tuple[str, str]]) -> None:
        super().keep([(key, said.encode("ascii").decode()) for key, said in rows])


class Cutting(Good):
    def keep(self, rows: Sequence[tuple[str, str]]) -> None:
        super().keep([(key, said) for key, said in rows if len(said) < 65_536])


class Loud(Good):
    def shutdown(self) -> None:
        super().shutdown()
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")


class Forgetful(Good):
    def keep(self, rows: Sequence[tuple[str, str]]) -> None:
        super().keep([(key, said) for key, said in rows if "stronghold04" not in said])


class GoodCase(ProviderCase):
    """Any of these."""

    kind: type[Good] = Good
    settle_seconds = 1.0

    def make(self) -> MemoryProvider:
        return self.kind(self.folder)

    def stored(self) -> Sequence[str]:
        with closing(sqlite3.connect(self.folder / "kept.db", timeout=5)) as db:
            if not db.execute("select 1 from sqlite_master where name = 'turns'").fetchone():
                return []
            return [said for (said,) in db.execute("select said from turns order by no")]

    def set_health(self, health: Health) -> None:
        (self.folder / "health").write_text(health)


def _case(kind: type[Good]) -> type[GoodCase]:
    return type(f"{kind.__name__}Case", (GoodCase,), {"kind": kind})


DoublingCase = _case(Doubling)
TellsByWordsCase = _case(TellsByWords)
SwallowingCase = _case(Swallowing)
BufferingCase = _case(Buffering)
ReversingCase = _case(Reversing)
ThreadPerCallCase = _case(ThreadPerCall)
StuckAtTheEndCase = _case(StuckAtTheEnd)
LeakingCase = _case(Leaking)
AsciiCase = _case(Ascii)
CuttingCase = _case(Cutting)
LoudCase = _case(Loud)
ForgetfulCase = _case(Forgetful)


class KnownGapCase(DoublingCase):  # type: ignore[valid-type, misc]
    gaps = {"duplicates": "it knows no keys"}  # noqa: RUF012
