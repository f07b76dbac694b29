"""A rolling restart under load: three servers on one PostgreSQL, and readers who follow streams through it.

python -m bench.rolling_restart [--rounds 5] [--readers 6]     starts a PostgreSQL of its own, with fsync on

Each reader has a conversation, says the next thing when it has the answer, and reads the events at one
server; when that server ends the stream, it goes on reading at another, as a client behind a proxy does.
Every fourth message makes the model call a tool first. The servers are told to stop (SIGTERM) one after
another, again and again. Then the readers' own notes are compared with all that the store has of their turns:
every message must have one answer, the stream must have told the end of every turn and each of its tool calls
to its reader, once, and every answer word for word. A reader whose server has gone looks into the transcript,
to know whether it may speak: what it finds only there was missed by the stream.

The hand-over is timed for each conversation that a server runs when it is told to stop: until another server
holds it, and until that conversation's reader gets the first event after that at another server.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import httpx2

from bench.durability import durability
from bench.hand_overs import HandOver, hand_over_times, running_at, watch_hand_overs
from bench.soak.servers import Server, a_model
from holdfast.sessions import SessionDB
from tests.postgres_server import DURABLE, server_url
from tests.sessions.databases import PostgresPlace

SERVERS = 3
WORDS = 40
"""How many words an answer has: two seconds of them, so that a restart meets answers on their way."""
PATIENCE = 120.0
CREATED, ACCEPTED = 201, 202
ENDS = ("TurnCompleted", "TurnFailed", "TurnInterrupted")
NO_NEWS = ("SessionSnapshot", "SessionMoved")
"""Events about where the conversation stands, and not about what happens in it."""
TOOL_EVERY = 4


@dataclass(slots=True)
class Notes:
    """What one reader saw."""

    sent: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    """How often the end of each turn was told, by the turn's id."""
    read: set[str] = field(default_factory=set)
    """Turns whose end was found in the transcript, after a change to another server."""
    called: Counter[str] = field(default_factory=Counter)
    finished: Counter[str] = field(default_factory=Counter)
    """How often the begin and the end of each tool call were told, by the call's id."""
    failed: list[str] = field(default_factory=list)
    differing: int = 0
    """Answers whose pieces, put together, were not the answer."""
    snapshots: int = 0
    resumed: int = 0
    reconnected: int = 0
    silences: list[float] = field(default_factory=list)
    """The time between two events while an answer was awaited."""


class Reader:
    """One conversation, read through whichever server answers."""

    def __init__(self, name: str, servers: Sequence[Server], seed: int) -> None:
        self.notes = Notes()
        self.session = ""
        self.news: list[tuple[float, Server]] = []
        self._name = name
        self._servers = servers
        self._random = random.Random(seed)  # noqa: S311 - it chooses a server
        self._turn = ""
        self._text = ""
        self._last = 0.0
        self._answered = asyncio.Event()
        self._number: str | None = None

    async def begin(self) -> None:
        answer = await self._ask("POST", "/api/sessions", {})
        self.session = answer.json()["id"]

    async def talk(self, enough: asyncio.Event) -> None:
        """Say the next thing whenever the last one is answered."""
        while not enough.is_set():
            self._answered.clear()
            self.notes.sent += 1
            key = f"{self._name}-{self.notes.sent}"
            self._last = time.monotonic()
            verb = "look" if self.notes.sent % TOOL_EVERY == 0 else "say"
            text = " ".join([verb, key, *(f"word{number}" for number in range(WORDS - 2))])
            await self._ask("POST", f"/api/sessions/{self.session}/send", {"text": text, "key": key})
            async with asyncio.timeout(PATIENCE):
                await self._answered.wait()

    async def follow(self) -> None:
        """Read events until cancelled; a stream that ends is gone on with at another server."""
        server = self._random.choice(self._servers)
        while True:
            try:
                async for event in self._events(server):
                    if event["kind"] not in NO_NEWS:
                        self.news.append((time.monotonic(), server))
                    await self._take(event)
            except httpx2.HTTPError:
                await asyncio.sleep(0.05)
            self.notes.reconnected += 1
            server = self._random.choice([each for each in self._servers if each is not server])

    async def _events(self, server: Server) -> AsyncIterator[dict[str, Any]]:
        headers = {} if self._number is None else {"Last-Event-ID": self._number}
        path = f"/api/sessions/{self.session}/events"
        async with server.http.stream("GET", path, headers=headers, timeout=30.0) as answer:
            answer.raise_for_status()
            async for line in answer.aiter_lines():
                if line.startswith("id: "):
                    self._number = line[4:]
                elif line.startswith("data: "):
                    yield json.loads(line[6:])

    async def _take(self, event: dict[str, Any]) -> None:
        now = time.monotonic()
        if not self._answered.is_set():
            self.notes.silences.append(now - self._last)
        self._last = now
        match event["kind"]:
            case "SessionSnapshot":
                self.notes.snapshots += 1
                self._turn, self._text = event["turn_id"], event["text"]
                await self._read_on(event["turn_id"])
            case "TurnStarted":
                self._turn, self._text = event["turn_id"], ""
            case "TurnResumed":
                self.notes.resumed += 1
                self._turn, self._text = event["turn_id"], ""
            case "ModelRetrying":
                self._text = ""
            case "TextDelta":
                self._text += event["text"]
            case "ToolStarted":
                self.notes.called[event["call_id"]] += 1
            case "ToolFinished":
                self.notes.finished[event["call_id"]] += 1
            case kind if kind in ENDS:
                self._ended(kind, event)

    def _ended(self, kind: str, event: dict[str, Any]) -> None:
        self.notes.ends[event["turn_id"]] += 1
        if kind != "TurnCompleted":
            self.notes.failed.append(json.dumps(event))
        elif event["turn_id"] == self._turn and self._text != event["final_response"]:
            self.notes.differing += 1
        self._note_answer()

    async def _read_on(self, running: str) -> None:
        """The answer that is awaited may have been told to nobody between two servers."""
        answer = await self._ask("GET", f"/api/sessions/{self.session}/messages", None)
        items = answer.json()["items"]
        if items and items[-1]["message"]["role"] == "assistant":
            turn = items[-1]["turn_id"]
            said = items[-1]["message"]
            is_whole = turn != running and not said.get("holdfast") and not said.get("tool_calls")
            if is_whole and turn not in self.notes.ends:
                self.notes.read.add(turn)
                self._note_answer()

    def _note_answer(self) -> None:
        """An end that was read in the transcript may be told later as well: each turn answers one message."""
        if len(self.notes.ends.keys() | self.notes.read) >= self.notes.sent:
            self._answered.set()

    async def _ask(self, method: str, path: str, body: Any) -> httpx2.Response:  # noqa: ANN401
        """Until some server answers for good."""
        async with asyncio.timeout(PATIENCE):
            while True:
                server = self._random.choice(self._servers)
                try:
                    answer = await server.http.request(method, path, json=body)
                except httpx2.HTTPError:
                    await asyncio.sleep(0.05)
                    continue
                if answer.status_code < 500:
                    return answer
                await asyncio.sleep(0.05)


async def restart_rolling(store_url: str, folder: Path, rounds: int, readers: int) -> dict[str, Any]:
    """Run it, and compare what the readers noted with the store."""
    enough = asyncio.Event()
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(a_model(WORDS))
        servers = []
        for number in range(SERVERS):
            home = folder / f"server-{number}"
            home.mkdir()
            servers.append(Server(home, store_url, model))
            stack.push_async_callback(servers[-1].end)
            stack.push_async_callback(servers[-1].http.aclose)
            await servers[-1].start()
        people = [Reader(f"r{number}", servers, number) for number in range(readers)]
        for each in people:
            await each.begin()
        following = [asyncio.create_task(each.follow()) for each in people]
        talking = [asyncio.create_task(each.talk(enough)) for each in people]
        db = stack.enter_context(SessionDB.open(store_url))
        endings: list[float] = []
        moved: list[HandOver] = []
        for number in range(rounds):
            for server in servers:
                await asyncio.sleep(1.0)
                ran = await running_at(db, server, people)
                watched, ended = await asyncio.gather(watch_hand_overs(db, server, ran), server.restart())
                moved += watched
                endings.append(ended)
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
        enough.set()
        await asyncio.gather(*talking)
        for task in following:
            task.cancel()
        await asyncio.wait(following)
        return compare(db, people, endings) | hand_over_times(moved)


def compare(db: SessionDB, people: Sequence[Reader], endings: Sequence[float]) -> dict[str, Any]:
    """What the store has beside what the readers know."""
    found: Counter[str] = Counter()
    for person in people:
        notes = person.notes
        stored = [each for each in db.sessions.read(person.session) if each.turn_id]
        said = Counter(str(each.message["content"]) for each in stored if each.message["role"] == "user")
        turns = {each.turn_id for each in stored}
        completed = {turn for turn in turns if turn and _state(db, turn) == "completed"}
        found["messages"] += notes.sent
        found["lost"] += notes.sent - len(said)
        found["doubled messages"] += sum(count > 1 for count in said.values())
        found["turns not completed"] += len(turns) - len(completed)
        found["ends missed by the stream"] += len(completed - notes.ends.keys())
        found["ends found nowhere"] += len(completed - notes.ends.keys() - notes.read)
        found["ends doubled"] += sum(count > 1 for count in notes.ends.values())
        found["answers that differ from their pieces"] += notes.differing
        found["failures shown"] += len(notes.failed)
        calls = {call["id"] for each in stored for call in each.message.get("tool_calls", ())}
        found["tool calls"] += len(calls)
        found["tool calls missed by the stream"] += len(calls - notes.called.keys())
        found["tool results missed by the stream"] += len(calls - notes.finished.keys())
        found["tool calls told twice"] += sum(count > 1 for count in notes.called.values())
        found["tool results told twice"] += sum(count > 1 for count in notes.finished.values())
        found["changes of server"] += notes.reconnected
        found["turns seen to go on elsewhere"] += notes.resumed
        for line in notes.failed[:3]:
            print(line, file=sys.stderr)
    found["faults of the store"] = len(db.check())
    found["restarts"] = len(endings)
    silences = [each for person in people for each in person.notes.silences]
    longest = [max(person.notes.silences) for person in people]
    return {
        **found,
        "longest silence of a reader": f"{max(silences):.2f} s",
        "longest silence, median of the readers": f"{median(longest):.2f} s",
        "a server's end, median and longest": f"{median(endings):.2f} s, {max(endings):.2f} s",
    }


def _state(db: SessionDB, turn_id: str) -> str:
    turn = db.turns.get(turn_id)
    return "" if turn is None else turn.state


BETWEEN_STREAMS = (
    "ends missed by the stream",
    "tool calls missed by the stream",
    "tool results missed by the stream",
)
"""What happens while a reader changes servers is told by neither of them; the transcript has it."""
FAULTS = (
    *BETWEEN_STREAMS,
    *("lost", "doubled messages", "turns not completed", "ends found nowhere", "ends doubled"),
    *("tool calls told twice", "tool results told twice"),
    *("answers that differ from their pieces", "failures shown", "faults of the store"),
)


def faults(found: dict[str, Any]) -> dict[str, Any]:
    """What somebody missed or lost, or saw twice; empty when nobody did."""
    return {each: found[each] for each in FAULTS if found[each]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--readers", type=int, default=6)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-rolling-", ignore_cleanup_errors=True) as folder,
        server_url(*DURABLE) as server,
    ):
        place = PostgresPlace(server)
        try:
            found = asyncio.run(restart_rolling(place.url, Path(folder), given.rounds, given.readers))
        finally:
            place.drop()
        found["the database"] = durability(server)
    print(
        "\n".join(
            ["| what | found |", "|---|---|", *(f"| {what} | {each} |" for what, each in found.items())]
        )
    )
    print("\nNOT SOUND" if faults(found) else "\nsound")
    return 1 if faults(found) else 0


if __name__ == "__main__":
    sys.exit(main())
