"""Forgettings: requests to delete memories, kept until every provider has carried them out.

A forgetting is stored first, in one transaction that also drops the deliveries of its turns that no provider
has yet. The providers' lanes carry it out, at least once. What stays on record has no word of the content:
when, by which kind of selection, how many turns, and what each provider answered.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

from holdfast.core.errors import InvalidInput
from holdfast.core.ids import new_id
from holdfast.sessions.codec import LARGEST, UNSTORABLE, checked_limit, checked_name, to_json
from holdfast.sessions.contract import OWNER, SECOND, Engine, Operation, Transaction
from holdfast.sessions.transcripts import require_session, root_of

ForgettingKind = Literal["memories", "words", "time", "conversation", "person"]
TurnRef = tuple[str, str]
"""The session and the id of a completed turn."""

PAGE = 10_000
MAX_NOTE_LENGTH = 2_000


@dataclass(frozen=True, slots=True)
class ForgettingTask:
    """What one provider has to do for one forgetting."""

    forgetting_id: int
    key: str
    request: dict[str, Any]
    attempts: int
    under_way: bool
    """Whether another process is delivering one of the turns to the provider at this moment."""


@dataclass(frozen=True, slots=True)
class ProviderForgetting:
    """What one provider did for a forgetting."""

    provider: str
    state: Literal["owed", "done", "unable", "failed"]
    forgotten: int
    note: str
    """What it can't delete, or why it failed."""


@dataclass(frozen=True, slots=True)
class Forgetting:
    """The record of a forgetting, without its content."""

    id: int
    kind: ForgettingKind
    turns: int
    requested: int
    providers: tuple[ProviderForgetting, ...]


class Forgettings:
    """The forgettings of a store."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    # what is selected

    def turns_between(self, after: float, before: float) -> list[TurnRef]:
        """The turns that were completed in a period, in seconds since the epoch."""
        begin, end = max(0, int(after * SECOND)), min(LARGEST, int(before * SECOND))

        def page(later_than: str) -> list[TurnRef]:
            return self._engine.read(
                lambda tx: [
                    (row[0], row[1])
                    for row in tx.queries.turns_completed_between(
                        after=begin, before=end, later_than=later_than, limit=PAGE
                    )
                ]
            )

        return list(_all_pages(page))

    def turns_of(self, session_id: str) -> list[TurnRef]:
        """The completed turns of the conversation that a session belongs to, with those of its subagents."""

        def work(tx: Transaction) -> list[TurnRef]:
            roots = [row[0] for row in tx.queries.conversations_to_delete(root=root_of(tx, session_id))]
            return [(row[0], row[1]) for root in roots for row in tx.queries.completed_turns_of(root=root)]

        return self._engine.read(work)

    def existing(self, turn_ids: Iterable[str]) -> list[TurnRef]:
        """Those of the turns that are on record as completed."""

        def work(tx: Transaction) -> list[TurnRef]:
            found = (tx.queries.completed_turn(id=each) for each in turn_ids)
            return [(row[0], row[1]) for row in found if row is not None]

        return self._engine.read(work)

    def whole_sessions(self, turns: Sequence[TurnRef]) -> list[str]:
        """The sessions of which every completed turn is among these, or was forgotten before."""
        return self._engine.read(lambda tx: _whole_sessions(tx, turns))

    # from the request to its end

    def accept(
        self,
        key: str,
        kind: ForgettingKind,
        turns: Sequence[TurnRef],
        request: dict[str, Any],
        *,
        providers: Iterable[str],
    ) -> int:
        """Store a request; from now on the turns reach no provider any more. Returns its number.

        Every provider that was given one of the turns has a task, also one that is not in use now. The same
        key again is the same forgetting.
        """
        checked_key = checked_name("a forgetting's key", key)
        named = [checked_name("a provider's name", each) for each in providers]
        return self._engine.write(
            Operation("accept_forgetting", lambda tx: _accept(tx, checked_key, kind, turns, request, named))
        )

    def next_task(self, provider: str) -> ForgettingTask | None:
        """The oldest task of a provider that is due; None when there is none."""
        if self.next_due(provider) is None:
            return None  # a read, so an idle lane writes nothing

        def work(tx: Transaction) -> ForgettingTask | None:
            row = tx.queries.due_forgetting(provider=provider)
            if row is None:
                return None
            # A process that gave a turn back meanwhile has made it owed again.
            _drop_deliveries(tx, row[0])
            under_way = bool(tx.queries.forgotten_under_way(forgetting_id=row[0], provider=provider))
            return ForgettingTask(int(row[0]), row[1], json.loads(row[2]), int(row[3]), under_way)

        return self._engine.write(Operation("take_forgetting", work))

    def next_due(self, provider: str) -> int | None:
        """When the next task of a provider is due; None when it has none."""

        def work(tx: Transaction) -> int | None:
            due: int | None = tx.queries.next_forgetting(provider=provider)
            return due

        return self._engine.read_once(work)

    def defer(
        self,
        task: ForgettingTask,
        provider: str,
        *,
        delay_seconds: float,
        note: str = "",
        counted: bool = True,
    ) -> None:
        """Try a task again after a delay."""

        def work(tx: Transaction) -> None:
            tx.queries.defer_forgetting(
                forgetting_id=task.forgetting_id,
                provider=provider,
                delay_us=int(delay_seconds * SECOND),
                counted=int(counted),
                note=_note(note),
            )

        self._engine.write(Operation("defer_forgetting", work))

    def settle(
        self,
        task: ForgettingTask,
        provider: str,
        state: Literal["done", "unable", "failed"],
        *,
        forgotten: int = 0,
        note: str = "",
    ) -> None:
        """Record what a provider did. Done already by another process: nothing changes."""

        def work(tx: Transaction) -> None:
            tx.queries.settle_forgetting(
                forgetting_id=task.forgetting_id,
                provider=provider,
                state=state,
                forgotten=forgotten,
                note=_note(note),
            )
            _drop_deliveries(tx, task.forgetting_id)
            tx.queries.drop_forgetting_request(forgetting_id=task.forgetting_id)

        self._engine.write(Operation("settle_forgetting", work))

    def retry(self, forgetting_id: int) -> None:
        """Owe a forgetting again to the providers where it failed."""

        def work(tx: Transaction) -> None:
            if not tx.queries.retry_forgetting(forgetting_id=forgetting_id):
                raise InvalidInput(
                    f"forgetting {forgetting_id} has not failed anywhere; there is nothing to retry"
                )

        self._engine.write(Operation("retry_forgetting", work))

    def list(self, *, before: int = LARGEST, limit: int = 50) -> "list[Forgetting]":
        """The records, newest first; `before` is the last id of the page before."""
        checked_limit(limit)

        def work(tx: Transaction) -> "list[Forgetting]":
            rows = list(tx.queries.list_forgettings(before=before, limit=limit))
            return [
                Forgetting(
                    *head,
                    providers=tuple(ProviderForgetting(*row[4:]) for row in tasks if row[4] is not None),
                )
                for head, tasks in groupby(rows, key=lambda row: (row[0], row[1], row[2], row[3]))
            ]

        return self._engine.read(work)

    def get(self, forgetting_id: int) -> Forgetting | None:
        found = self.list(before=forgetting_id + 1, limit=1)
        return found[0] if found and found[0].id == forgetting_id else None

    def number_of(self, key: str) -> int | None:
        """The number of the forgetting that was accepted under a key; None when there is none."""

        def work(tx: Transaction) -> int | None:
            number: int | None = tx.queries.forgetting_id(key=key)
            return number

        return self._engine.read_once(work)

    def newest(self) -> int:
        """The number of the newest forgetting; 0 for none."""
        return self._engine.read_once(lambda tx: int(tx.queries.last_forgetting()))


def forget_undone(tx: Transaction, session_id: str, before: int, providers: Sequence[str]) -> None:
    """Forget the turns that began at a place of a session or after it, which a branch now leaves behind.

    In the transaction that makes the branch, so that neither is without the other.
    """
    turns = _undone_turns(tx, session_id, before)
    if turns:
        scopes = {each: require_session(tx, each).scope for each, _ in turns}
        request = {
            "sessions": _whole_sessions(tx, turns),
            "memory_ids": {},
            "scopes": {each: scope for each, scope in scopes.items() if scope != OWNER},
            "period": None,
        }
        _accept(tx, new_id(), "conversation", turns, request, providers)


def _undone_turns(tx: Transaction, session_id: str, before: int) -> list[TurnRef]:
    """Those of the session itself and, where it took the place of another, those that it has copies of."""
    turns = [(row[0], row[1]) for row in tx.queries.turns_begun_after(session_id=session_id, before=before)]
    session = require_session(tx, session_id)
    copied = int(tx.queries.copied_messages(session_id=session_id))
    if session.relation == "branch" and session.parent is not None and before < copied:
        left = list(tx.queries.turns_begun_after(session_id=session.parent, before=copied))
        if left and all(row[2] for row in left):
            turns += _undone_turns(tx, session.parent, before)
    return turns


def _whole_sessions(tx: Transaction, turns: Sequence[TurnRef]) -> list[str]:
    chosen: dict[str, set[str]] = {}
    for session_id, turn_id in turns:
        chosen.setdefault(session_id, set()).add(turn_id)
    return [
        session_id
        for session_id, ids in chosen.items()
        if all(row[0] in ids for row in tx.queries.unselected_turns(session_id=session_id))
    ]


def _accept(
    tx: Transaction,
    key: str,
    kind: ForgettingKind,
    turns: Sequence[TurnRef],
    request: dict[str, Any],
    providers: Sequence[str],
) -> int:
    text = to_json({**request, "turns": [list(each) for each in turns]})
    fresh = tx.queries.add_forgetting(key=key, kind=kind, turns=len(turns), request=text)
    forgetting_id = int(tx.queries.forgetting_id(key=key))
    if not fresh:
        return forgetting_id
    for _, turn_id in turns:
        tx.queries.mark_turn_forgotten(turn_id=turn_id, forgetting_id=forgetting_id)
    told = [row[0] for row in tx.queries.providers_told(forgetting_id=forgetting_id)]
    for provider in dict.fromkeys([*providers, *told]):
        tx.queries.add_forgetting_task(forgetting_id=forgetting_id, provider=provider)
    _drop_deliveries(tx, forgetting_id)
    tx.queries.drop_forgetting_request(forgetting_id=forgetting_id)
    return forgetting_id


def _drop_deliveries(tx: Transaction, forgetting_id: int) -> None:
    tx.queries.drop_forgotten_deliveries(forgetting_id=forgetting_id)
    tx.queries.drop_forgotten_copies(forgetting_id=forgetting_id)


def _note(text: str) -> str:
    # A provider's words may hold anything; they must be storable whatever they are.
    return UNSTORABLE.sub("\ufffd", text)[:MAX_NOTE_LENGTH]


def _all_pages(page: Callable[[str], list[TurnRef]]) -> Iterator[TurnRef]:
    """All turns, from pages that begin after the last id of the page before."""
    last = ""
    while found := page(last):
        yield from found
        last = found[-1][1]
