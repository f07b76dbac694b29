"""Chat places: in which chats conversations go on, in words that a person recognises."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.sessions.codec import to_json
from holdfast.sessions.contract import Engine, Transaction


@dataclass(frozen=True, slots=True)
class ChatPlace:
    """A chat of an account, or one of its threads, as people call it."""

    room_id: int
    account: str
    chat: str
    thread: str
    is_direct: bool
    title: str
    """The name of a group; empty where the platform has none."""
    person: str
    """Who was let in there last: a name, or the platform's id of somebody without one; empty: nobody yet."""


class ChatPlaces:
    """Reads where conversations live. Only the gateway changes that (`chat_events.py`)."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def of(self, roots: Iterable[str]) -> dict[str, list[ChatPlace]]:
        """The places of these conversations; one that lives in no chat is left out."""
        wanted = to_json(list(roots))

        def work(tx: Transaction) -> dict[str, list[ChatPlace]]:
            found: dict[str, list[ChatPlace]] = {}
            for root, *row in tx.queries.chat_places(conversations=wanted):
                found.setdefault(root, []).append(_place(row))
            return found

        return self._engine.read(work)

    def of_rooms(self, rooms: Iterable[int]) -> dict[int, ChatPlace]:
        """The places of these rooms."""
        wanted = sorted(set(rooms))

        def work(tx: Transaction) -> dict[int, ChatPlace]:
            rows = (tx.queries.chat_place(id=each) for each in wanted)
            return {row[0]: _place(row) for row in rows if row is not None}

        return self._engine.read(work)

    def waiting(self) -> int:
        """How many strangers ask to be let in, and how many posts could not be delivered, on all accounts."""
        return self._engine.read(lambda tx: int(tx.queries.chat_waiting()))

    def accounts(self) -> list[str]:
        """Every account that the store knows something of, also one that is set up elsewhere."""
        return self._engine.read(lambda tx: [row[0] for row in tx.queries.chat_accounts()])


def _place(row: Sequence[Any]) -> ChatPlace:
    room_id, account, chat, thread, is_direct, title, sender, name, event = row
    said = json.loads(event) if event else {}
    person = name or said.get("sender", {}).get("name") or sender or ""
    return ChatPlace(room_id, account, chat, thread, bool(is_direct), title, person)
