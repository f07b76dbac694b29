"""Two processes on one PostgreSQL: how soon one knows what the other does, by notifications and by looking.

python -m bench.nodes [ROUNDS]     starts a PostgreSQL of its own, which waits for the disk at each commit

One process runs the conversations (`bench.node_runner`); this one is the other node: it reads them,
interrupts them, and accepts messages for them. Both have the settings that users get, and stamp what they
see by the clock that all processes of the machine share. A conversation has a runner elsewhere while a turn
runs there: the message is accepted here in the middle of that turn, to interrupt it, so the time to the
start of its own turn has the end of that one in it, and the accepting too. The control is the same without
notifications: a host then looks at the store four times a second.
"""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from statistics import median

from bench.durability import durability
from bench.node_runner import DEAF, ENDLESS, a_node
from bench.table import Row, render
from holdfast.core.events import TextDelta, TurnCompleted, TurnFailed, TurnInterrupted, TurnStarted
from holdfast.host import SessionHost
from holdfast.host.contract import Numbered
from holdfast.testing import ScriptedModel
from tests.postgres_server import DURABLE, server_url
from tests.sessions.databases import PostgresPlace

ROUNDS = 20
ANSWER_SECONDS = 30.0
Times = dict[str, list[float]]
Events = AsyncGenerator[Numbered, None]


class Runner:
    """The other process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def do(self, *words: str) -> None:
        assert self._process.stdin is not None  # noqa: S101 - asked for
        self._process.stdin.write((" ".join(words) + "\n").encode())
        await self._process.stdin.drain()

    async def told(self, what: str, of: object = "") -> float:
        """When it did this with a session or a message; passes over what it did before that."""
        assert self._process.stdout is not None  # noqa: S101 - asked for
        async with asyncio.timeout(ANSWER_SECONDS):
            while line := await self._process.stdout.readline():
                said, at = line.decode().split()
                if said == f"{what}:{of}":
                    return float(at)
        raise RuntimeError("the runner ended")


@asynccontextmanager
async def a_runner(url: str, *, hears: bool) -> AsyncIterator[Runner]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.node_runner", url, *(() if hears else (DEAF,))),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    runner = Runner(process)
    try:
        await runner.told("ready")
        yield runner
    finally:
        assert process.stdin is not None  # noqa: S101 - asked for
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), ANSWER_SECONDS)
        except TimeoutError:
            process.kill()
            raise


async def one_round(runner: Runner, node: SessionHost, session: str, taken: Times) -> None:
    """An answer read here, one that is interrupted here, and a message that is accepted here."""
    await runner.do("new", session)
    await runner.told("made", session)
    async with aclosing(node.events(session)) as events, asyncio.timeout(ANSWER_SECONDS):
        await runner.do("say", session, "say it")
        await _read_answer(events, await runner.told("given", session), taken)
        await runner.do("say", session, ENDLESS)
        await _until(events, TextDelta)
        asked = time.monotonic()
        await node.interrupt(session)
        await _until(events, TurnInterrupted)
        taken["interrupt"].append(time.monotonic() - asked)
        await runner.told("ended", session)
        await runner.do("say", session, ENDLESS)
        await _until(events, TextDelta)
        accepting = time.monotonic()
        sent = await node.send(session, "say it", mode="interrupt")
        taken["accepting"].append(time.monotonic() - accepting)
        taken["ending"].append(await runner.told("ended", session) - accepting)
        taken["wake-up"].append(await runner.told("begun", sent.inbox_id) - accepting)
        await _until(events, TurnCompleted)


async def _until(events: Events, kind: type[TextDelta | TurnInterrupted | TurnCompleted]) -> None:
    async for numbered in events:
        if isinstance(numbered.event, kind):
            return
        if isinstance(numbered.event, TurnFailed):
            raise RuntimeError(numbered.event)  # noqa: TRY004 - no matter of types


async def _read_answer(events: Events, sent: float, taken: Times) -> None:
    """Read a whole answer, each of whose words says when it left the model."""
    text, begun_at = "", 0.0
    async for numbered in events:
        event, now = numbered.event, time.monotonic()
        if isinstance(event, TurnStarted):
            taken["begin"].append(now - sent)
            begun_at = now
        elif isinstance(event, TextDelta):
            text += event.text
            *whole, text = text.split(" ")
            # A reader that comes late is given what was said before at once.
            taken["token"] += [now - float(word) for word in whole if float(word) > begun_at]
        elif isinstance(event, TurnCompleted):
            return


async def measure(url: str, rounds: int, *, hears: bool) -> Times:
    taken: Times = {"accepting": [], "ending": [], **{name: [] for name in WHAT}}
    # A model without a script: a turn that ran here would fail.
    async with a_runner(url, hears=hears) as runner, a_node(url, ScriptedModel(), hears=hears) as node:
        for number in range(rounds):
            await one_round(runner, node, f"s{number}", taken)
    return taken


WHAT: dict[str, tuple[str, float]] = {
    "wake-up": ("from a message's accept on one node to its turn's start on another", 0.05),
    "token": ("a token's way from the model to a reader on another node", 0.1),
    "begin": ("a message accepted on one node to its turn shown on another", 0.0),
    "interrupt": ("an interrupt on another node to the turn's end shown there", 0.0),
}
"""What is measured, and its goal in seconds, if it has one."""


def node_rows(rounds: int = ROUNDS) -> list[Row]:
    """The rows of both, each on a fresh store of one server."""
    found: dict[bool, Times] = {}
    with server_url(*DURABLE) as url:
        server = durability(url)
        for hears in (False, True):
            place = PostgresPlace(url)
            found[hears] = asyncio.run(measure(place.url, rounds, hears=hears))
            place.drop()
    rows = []
    for name, (what, goal) in WHAT.items():
        slow, fast = median(found[False][name]), sorted(found[True][name])
        late = fast[int(len(fast) * 0.95)]
        spread = f"95 % within {late * 1000:.0f} ms"
        if name == "wake-up":
            parts = [median(found[True][part]) * 1000 for part in ("accepting", "ending")]
            spread += f"; accepted after {parts[0]:.0f} ms, the turn before ended after {parts[1]:.0f} ms"
        rows.append(
            Row(
                f"two processes (control: without notifications): {what}",
                f"{slow * 1000:.0f} ms",
                f"{median(fast) * 1000:.0f} ms",
                f"{median(fast) / slow:.2f}",
                spread,
                f"< {goal * 1000:.0f} ms" if goal else "",
                median(fast) < goal if goal else None,
            )
        )
    return [*rows, Row("two processes: the server", "", server, "")]


if __name__ == "__main__":
    print(render(node_rows(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)))
