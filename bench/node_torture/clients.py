"""The clients of the torture: people who talk through any node, and follow the events of what they said.

Beside what the people of the long run do (`bench.soak.people`) they have conversations compacted, begin new
ones, and send long texts. Each notes every end of a turn that it was told of.
"""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2

from bench.soak.people import CREATED, GONE, PATIENCE, Act, Books, Person, Reachable

LONG = 1500
"""Words of a long message, which fills the model's window after a few."""
READ_AGAIN = 0.2
BUSY_SECONDS = 0.5
CONFLICT = 409


@dataclass(slots=True)
class Ledger(Books):
    """What was acknowledged, and what readers were told."""

    completed: dict[str, set[str]] = field(default_factory=dict)
    """The answers that readers were told of each completed turn: one text."""
    doubled: Counter[str] = field(default_factory=Counter)
    """Turns whose end one stream told more than once."""


class Client(Person):
    """One person with one conversation at a time."""

    def __init__(self, name: str, seed: int, servers: Sequence[Reachable], books: Ledger) -> None:
        super().__init__(name, seed, servers, books)
        self._ledger = books
        self._readers_choice = random.Random(seed + 1)  # noqa: S311 - it chooses a server

    def _acts(self) -> dict[Act, int]:
        return {**super()._acts(), self._compact: 5, self._clear: 2}

    async def _compact(self) -> None:
        await self._ask("POST", self._path("compact"), {})
        self._books.count("compact")

    async def _clear(self) -> None:
        """Go on in a new conversation, with the same key until somebody says where that is.

        While messages wait the call is refused; a copy that nobody answered in time may still be carried out.
        """
        self._number += 1
        body = {"key": f"{self._name}-{self._number}"}
        async with asyncio.timeout(PATIENCE):
            answer = await self._ask("POST", self._path("clear"), body)
            while answer.status_code == CONFLICT:
                await asyncio.sleep(BUSY_SECONDS)
                answer = await self._ask("POST", self._path("clear"), body)
        self._books.count("new session")
        if answer.status_code == CREATED:
            self._session, self._mine, self._wants_deletion = answer.json()["root_id"], [], False
            self._books.sessions.add(self._session)
        elif answer.status_code == GONE and self._wants_deletion:
            self._gone()
        else:
            self._books.refused(answer)

    def _word(self) -> tuple[str, str]:
        key, text = super()._word()
        return key, f"{text} {'filler ' * LONG}" if self._random.random() < 0.06 else text

    async def follow(self) -> None:
        """Read the events of whatever conversation is this person's, until cancelled."""
        while True:
            session, server = self._session, self._readers_choice.choice(self._servers)
            try:
                if session:
                    async with asyncio.timeout(60):
                        await self._read(session, server)
            except (httpx2.HTTPError, TimeoutError):
                pass  # the node was killed, paused or cut off: another has the events too
            await asyncio.sleep(READ_AGAIN)

    async def _read(self, session: str, server: Reachable) -> None:
        told: Counter[str] = Counter()
        async with server.http.stream("GET", f"/api/sessions/{session}/events", timeout=10.0) as answer:
            if answer.status_code != 200:
                return
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    self._note(json.loads(line[6:]), told)
                if session != self._session:
                    return

    def _note(self, event: dict[str, Any], told: Counter[str]) -> None:
        if event["kind"] == "TurnCompleted":
            turn = event["turn_id"]
            told[turn] += 1
            self._ledger.completed.setdefault(turn, set()).add(event["final_response"])
            if told[turn] > 1:
                self._ledger.doubled[turn] += 1
