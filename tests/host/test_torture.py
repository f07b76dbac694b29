"""Many sessions, several real processes, and everything that can happen to them at random; then the books.

Set `HOLDFAST_TEST_TORTURE_SEED` to repeat a run and `HOLDFAST_TEST_TORTURE_STEPS` for a longer one.
"""

import asyncio
import json
import os
import random
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.transcript import Transcript
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import StoredMessage
from tests.agent.agent_fixtures import require_valid, until
from tests.host.host_processes import HostProcess, Start, host_processes

PROCESSES = 3
SESSIONS = 8
DEADLINE = 300.0
OPTIONS: dict[str, Any] = {
    "lease": 1.0,
    "memory": True,
    "window": 1_500,
    "host": {"after_crash": "resume", "agents": 2, "sweep_seconds": 0.2, "patience_seconds": 0.5},
}


class Torturer:
    """Does something at random, again and again, and keeps the books of what was accepted."""

    def __init__(self, seed: int, start: Start, folder: Path) -> None:
        self.random = random.Random(seed)
        self.accepted: set[str] = set()
        self.unknown: set[str] = set()
        self.sessions = [f"s{number}" for number in range(SESSIONS)]
        self.ever = set(self.sessions)
        self.gates: list[Path] = []
        self._start = start
        self._folder = folder
        self._count = 0
        self._talking: set[asyncio.Task[None]] = set()
        self.nodes: list[HostProcess] = []

    async def begin(self) -> None:
        self.nodes = [await self._start(**OPTIONS) for _ in range(PROCESSES)]

    async def step(self) -> None:
        what = self.random.choices(
            [self.send, self.interrupt, self.clear, self.compact, self.open_gate, self.kill, self.restart],
            weights=[60, 8, 3, 3, 12, 2, 1],
        )[0]
        await what()

    async def send(self) -> None:
        self._count += 1
        session = self.random.choice(self.sessions)
        mode = self.random.choices(["queue", "steer", "interrupt"], weights=[6, 2, 2])[0]
        self._later(self._send(session, self._words(), mode))
        await until(lambda: len(self._talking) < 2 * SESSIONS)

    def _words(self) -> str:
        kind = self.random.choice(["word", "long", "hold", "hold", "tool"])
        if kind not in ("hold", "tool"):
            return f"{kind} {self._count}"
        self.gates.append(self._folder / f"gate-{self._count}")
        return f"{kind} {self.gates[-1]}"

    async def _send(self, session: str, text: str, mode: str) -> None:
        try:
            answer = await self.random.choice(self.nodes).ask(
                "send", session_id=session, text=text, mode=mode
            )
        except ConnectionError:
            self.unknown.add(text)
            return
        if "error" in answer:
            assert answer["error"] in ("SessionEnded", "HostClosed"), answer
        else:
            self.accepted.add(text)

    async def interrupt(self) -> None:
        await self._ask("interrupt")

    async def compact(self) -> None:
        await self._ask("commands.compact")

    async def clear(self) -> None:
        session = self.random.choice(self.sessions)
        answer = await self._ask("commands.clear", session)
        if answer and "result" in answer:
            self.sessions[self.sessions.index(session)] = answer["result"]
            self.ever.add(answer["result"])

    async def _ask(self, what: str, session: str = "") -> dict[str, Any] | None:
        node = self.random.choice(self.nodes)
        asking = asyncio.ensure_future(
            node.ask(what, session_id=session or self.random.choice(self.sessions))
        )
        # What waits for a turn that is held waits for a gate.
        while not asking.done():
            await self.open_gate()
            await asyncio.wait([asking], timeout=0.2)
        with suppress(ConnectionError):
            answer = asking.result()
            known = (
                "SessionElsewhere",
                "SessionEnded",
                "SessionBusy",
                "SessionNotFound",
                "CommandInterrupted",
            )
            assert "error" not in answer or answer["error"] in (*known, "HostClosed", "LeaseLost"), answer
            return answer
        return None

    async def open_gate(self) -> None:
        for gate in self.random.sample(self.gates, min(2, len(self.gates))):
            gate.touch()
            self.gates.remove(gate)

    async def kill(self) -> None:
        await self._replace(HostProcess.kill)

    async def restart(self) -> None:
        await self._replace(HostProcess.close)

    async def _replace(self, end: Any) -> None:  # noqa: ANN401
        place = self.random.randrange(PROCESSES)
        await end(self.nodes[place])
        self.nodes[place] = await self._start(**OPTIONS)

    def _later(self, work: Any) -> None:  # noqa: ANN401
        task = asyncio.create_task(work)
        self._talking.add(task)
        task.add_done_callback(self._talking.discard)

    async def end(self) -> None:
        """Let everything come to rest, then end all but in good order."""
        while self._talking:
            await self.open_gate()
            await asyncio.wait(list(self._talking), timeout=0.2)
        for gate in self.gates:
            gate.touch()


@pytest.mark.slow
@pytest.mark.clause("I1", "D1", "D2", "C1", "C5", "L13")
@pytest.mark.parametrize("steps", [100, pytest.param(400, marks=pytest.mark.soak)])
def test_whatever_happens_every_word_ends_in_one_turn_and_every_turn_in_memory(
    store_url: str, tmp_path: Path, steps: int
) -> None:
    seed = int(os.environ.get("HOLDFAST_TEST_TORTURE_SEED", "0")) or random.randrange(1, 10**6)
    steps = int(os.environ.get("HOLDFAST_TEST_TORTURE_STEPS", "0")) or steps
    print(f"seed {seed}")  # noqa: T201 - pytest shows it when the test fails

    async def scenario() -> None:
        with SessionDB.open(store_url) as db:
            async with host_processes(store_url, tmp_path) as start:
                torturer = Torturer(seed, start, tmp_path)
                await torturer.begin()
                for _ in range(steps):
                    await torturer.step()
                await torturer.end()
                await until(lambda: not db.inbox.sessions() and at_rest(db))
                await until(lambda: db.outbox.backlog("file").owed == 0)
                for node in torturer.nodes:
                    await node.close()
                # The next start looks after what the ends before left.
                last = await start(**OPTIONS)
                await until(lambda: db.sessions.uncommitted() == [])
                await last.close()
                audit(db, torturer, tmp_path)

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE))


def at_rest(db: SessionDB) -> bool:
    """No turn runs; one that a killed process left open, with nobody who speaks there, stays so."""
    return all(db.session_holder(turn.session_id) is None for turn in db.turns.unfinished())


def audit(db: SessionDB, torturer: Torturer, folder: Path) -> None:
    assert db.check() == []
    known = {session for session in torturer.ever if db.get_session(session) is not None}
    conversations = [db.sessions.lineage(session) for session in sorted(known)]
    own = [stored for lineage in conversations for stored in own_messages(db, lineage)]

    # Every accepted word is in exactly one turn; what nobody knows the fate of, in one at most.
    words = Counter(str(stored.message["content"]) for stored in own if stored.message["role"] == "user")
    assert {word: words[word] for word in torturer.accepted if words[word] != 1} == {}
    assert set(words) <= torturer.accepted | torturer.unknown
    assert max(words.values(), default=0) <= 1

    # Every completed turn reached the provider, and none that was not completed did.
    turns = {stored.turn_id: db.turns.get(stored.turn_id or "") for stored in own}
    completed = {turn.id for turn in turns.values() if turn is not None and turn.state == "completed"}
    lines = [json.loads(line) for line in (folder / "turns").read_text().splitlines()]
    delivered = {line["key"] for line in lines}
    assert {turn for turn in completed if not any(turn in key for key in delivered)} == set()
    assert len(delivered) == len(completed)

    # Every completed turn was committed at some boundary.
    commits = [json.loads(line) for line in (folder / "commits").read_text().splitlines()]
    committed = {text for stretch in commits for text in stretch if isinstance(text, str)}
    said = {
        str(stored.message["content"])
        for stored in own
        if stored.turn_id in completed and stored.message["role"] == "user"
    }
    assert said <= committed

    for lineage in conversations:
        sessions = [db.get_session(session) for session in lineage]
        assert sum(session is not None and session.ended is None for session in sessions) <= 1
        for session in lineage:
            messages = db.get_messages(session)
            if messages:
                require_valid(Transcript(messages).messages)


def own_messages(db: SessionDB, lineage: list[str]) -> list[StoredMessage]:
    """What was said in turns of this conversation, each message once."""
    stored = [each for session in lineage for each in db.sessions.read(session)]
    return [each for each in stored if each.turn_id is not None and not each.carried]
