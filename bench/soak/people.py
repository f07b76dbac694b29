"""The people of the long run: each has a conversation, says what comes to mind, and keeps the books.

A request that is not answered is sent again with its key, to any server, until somebody acknowledges it.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx2

CREATED, ACCEPTED, DONE, GONE = 201, 202, 204, 404
Act = Callable[[], Awaitable[None]]
PATIENCE = 300.0
"""How long a request is sent again before the run gives up."""


class Reachable(Protocol):
    """A server, as its clients know it."""

    http: httpx2.AsyncClient


@dataclass(slots=True)
class Books:
    """What was acknowledged, by inbox id, and what the people took back themselves."""

    sent: dict[int, str] = field(default_factory=dict)
    withdrawn: set[int] = field(default_factory=set)
    deleted: set[int] = field(default_factory=set)
    """Of conversations whose deletion was asked for, also where nobody heard that it was done."""
    sessions: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def refused(self, answer: httpx2.Response) -> None:
        """A message that was not accepted, though nothing speaks against it."""
        self.refusals.append(f"{answer.status_code} {answer.text[:200]}")


class Person:
    """One conversation after another."""

    def __init__(self, name: str, seed: int, servers: Sequence[Reachable], books: Books) -> None:
        self._name = name
        self._random = random.Random(seed)  # noqa: S311 - it chooses what is said
        self._servers = servers
        self._books = books
        self._session = ""
        self._wants_deletion = False
        self._mine: list[int] = []
        self._number = 0

    async def talk(self, enough: asyncio.Event) -> None:
        """Go on until it is enough."""
        while not enough.is_set():
            if not self._session:
                await self._begin()
            acts = self._acts()
            act = self._random.choices(list(acts), weights=list(acts.values()))[0]
            await act()
            await asyncio.sleep(self._random.uniform(0.0, 1.2))

    def _acts(self) -> dict[Act, int]:
        """What this person may do next, and how often."""
        return {
            self._send: 60,
            self._interrupt: 8,
            self._stop: 6,
            self._withdraw: 10,
            self._resume: 6,
            self._delete: 1,
        }

    async def _begin(self) -> None:
        key, text = self._word()
        answer = await self._ask("POST", "/api/sessions", {"message": {"text": text, "key": key}})
        if answer.status_code != CREATED:
            self._books.refused(answer)
            return
        self._session = answer.json()["root_id"]
        self._books.sessions.add(self._session)
        # The key finds the message: it is acknowledged by the conversation that began with it.
        await self._say({"text": text, "key": key})

    async def _send(self) -> None:
        key, text = self._word()
        mode = self._random.choices(["queue", "steer", "interrupt"], weights=[7, 2, 1])[0]
        await self._say({"text": text, "key": key, "mode": mode})
        self._books.count(mode)

    async def _interrupt(self) -> None:
        """With a word, which is the next message."""
        key, text = self._word()
        await self._ask("POST", self._path("interrupt"), {"text": text, "key": key})
        await self._say({"text": text, "key": key, "mode": "interrupt"})
        self._books.count("interrupt")

    async def _say(self, body: dict[str, str]) -> None:
        answer = await self._ask("POST", self._path("send"), body)
        if answer.status_code == ACCEPTED:
            inbox_id = answer.json()["inbox_id"]
            self._books.sent[inbox_id] = body["text"]
            self._mine.append(inbox_id)
            if self._wants_deletion:
                self._books.deleted.add(inbox_id)
        elif answer.status_code == GONE and self._wants_deletion:
            self._gone()  # a server did so after it had stood still, and nobody waited for its answer
        else:
            self._books.refused(answer)

    async def _stop(self) -> None:
        await self._ask("POST", self._path("interrupt"), {})
        self._books.count("stop")

    async def _withdraw(self) -> None:
        if not self._mine:
            return
        inbox_id = self._random.choice(self._mine[-3:])
        # A first answer that was not heard makes the second a refusal: the store says what became of it.
        answer = await self._ask("DELETE", self._path(f"waiting/{inbox_id}"), None)
        if answer.status_code == DONE:
            self._books.withdrawn.add(inbox_id)
        self._books.count("withdraw")

    async def _resume(self) -> None:
        await self._ask("POST", self._path("resume"), None)
        self._books.count("resume")

    async def _delete(self) -> None:
        self._wants_deletion = True
        self._books.deleted.update(self._mine)
        answer = await self._ask("DELETE", f"/api/sessions/{self._session}?force=true", None)
        self._books.count("delete")
        if answer.status_code in (DONE, GONE):
            self._gone()

    def _gone(self) -> None:
        self._session, self._mine, self._wants_deletion = "", [], False

    def _word(self) -> tuple[str, str]:
        self._number += 1
        key = f"{self._name}-{self._number}"
        kind = self._random.choices(["say", "look", "write"], weights=[8, 2, 1])[0]
        return key, f"{kind} {key} " + " ".join(["word"] * self._random.randrange(1, 10))

    def _path(self, rest: str) -> str:
        return f"/api/sessions/{self._session}/{rest}"

    async def _ask(self, method: str, path: str, body: Any) -> httpx2.Response:  # noqa: ANN401
        """Until some server answers for good; those that are gone, paused or ending are asked again."""
        async with asyncio.timeout(PATIENCE):
            while True:
                server = self._random.choice(self._servers)
                try:
                    answer = await server.http.request(method, path, json=body)
                except httpx2.HTTPError:
                    await asyncio.sleep(0.1)
                    continue
                if answer.status_code < 500:
                    return answer
                await asyncio.sleep(0.1)
