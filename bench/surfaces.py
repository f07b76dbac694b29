"""Start-up and the host: how soon the program is there, and what the host adds to a turn.

The control of a start is the bare interpreter; that of a turn through the host is the same turn of an agent.
"""

import asyncio
import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing
from pathlib import Path

from bench.rounds import Scale, compare, take_turns
from bench.table import Row, number, row
from bench.turns import AtOnce, look
from holdfast.agent import AgentOptions, Pools, SessionAgent
from holdfast.agent.scope_policy import AgentScope
from holdfast.core.events import TurnCompleted
from holdfast.host import HostOptions, HostParts, SessionHost
from holdfast.memory import MemoryManager, SessionLifecycle
from holdfast.sessions import SessionDB
from holdfast.tools.open_questions import OpenQuestions

MAIN = "from holdfast.cli.main import main; main()"
STATUS_LINE = b"ready"
MANY = 200
PATIENCE = 60.0


def surface_rows(folder: Path, scale: Scale) -> Iterator[Row]:
    yield from _start_rows(scale)
    yield from _prompt_rows(folder)
    yield from _host_rows(folder, scale)


def _start_rows(scale: Scale) -> Iterator[Row]:
    def run(*arguments: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, *arguments], check=True, capture_output=True)

    samples = take_turns(
        {"bare": run("-c", "pass"), "version": run("-c", MAIN, "--version")}, rounds=max(4, scale.rounds)
    )
    walls = [[each.wall for each in samples[name]] for name in ("bare", "version")]
    yield row("start: the bare interpreter, `holdfast --version`", "ms", compare(*walls))


def _prompt_rows(folder: Path) -> Iterator[Row]:
    """From the start of `holdfast chat` on a terminal to its status line, with a scripted model."""
    taken, memory = [], []
    for attempt in range(4):
        seconds, resident = _until_prompt(folder / f"chat-{attempt}")
        taken.append(seconds * 1000)
        memory.append(resident)
    # The first start compiles and fills caches.
    yield Row("time from start to prompt of `holdfast chat`", "", f"{number(min(taken[1:]))} ms", "")
    yield Row("memory at the prompt", "", f"{number(min(memory) / 1024)} MiB", "")


def _until_prompt(home: Path) -> tuple[float, int]:
    home.mkdir()
    script = home / "script.json"
    script.write_text(json.dumps(["hello"]), encoding="utf-8")
    environment = {
        **os.environ,
        "HOME": str(home),
        "XDG_DATA_HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "XDG_STATE_HOME": str(home),
        "HOLDFAST_MODEL_PROVIDER": "scripted",
        "HOLDFAST_MODEL_NAME": str(script),
        "TERM": "xterm",
    }
    begun = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [sys.executable, "-c", MAIN, "chat"], environment)  # noqa: S606
    seen = b""
    while STATUS_LINE not in seen and time.perf_counter() - begun < PATIENCE:
        if select.select([terminal], [], [], 1.0)[0]:
            seen += os.read(terminal, 65536)
            if b"\x1b[6n" in seen:  # it asks where the cursor is
                os.write(terminal, b"\x1b[1;1R")
                seen = seen.replace(b"\x1b[6n", b"")
    taken = time.perf_counter() - begun
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    resident = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    os.close(terminal)
    if STATUS_LINE not in seen:
        raise RuntimeError(f"no prompt came within {PATIENCE:g} s: {seen[-300:]!r}")
    return taken, resident


def _host_rows(folder: Path, scale: Scale) -> Iterator[Row]:
    loop, pools = asyncio.new_event_loop(), Pools()
    db = SessionDB(folder / "host.db")
    memory = MemoryManager(db)

    def make_agent(session_id: str, _: OpenQuestions, scope: AgentScope) -> SessionAgent:
        return SessionAgent(
            AtOnce(), db, session_id, memory, [look()], AgentOptions(pools=pools, scope=scope)
        )

    parts = HostParts(db, memory, SessionLifecycle(db), make_agent, pools, HostOptions(agents=MANY))
    host = loop.run_until_complete(SessionHost(parts).__aenter__())
    alone = make_agent("alone", OpenQuestions(), AgentScope())
    turns = 10

    seen = 0

    async def through_the_host() -> None:
        nonlocal seen
        for _ in range(turns):
            seen = await _answered(host, "hosted", seen)

    async def by_itself() -> None:
        for _ in range(turns):
            await alone.run("u" * 200)

    samples = take_turns(
        {
            "agent": lambda: loop.run_until_complete(by_itself()),
            "host": lambda: loop.run_until_complete(through_the_host()),
        },
        rounds=scale.rounds,
        operations=turns,
    )
    for kind, name in (("wall", "wall"), ("cpu", "CPU")):
        values = [[getattr(each, kind) for each in samples[who]] for who in ("agent", "host")]
        yield row(
            f"a turn with one tool call: the agent alone, through the host, {name}", "ms", compare(*values)
        )

    async def many() -> None:
        await asyncio.gather(*(_answered(host, f"many-{each}") for each in range(MANY)))

    begun = time.perf_counter()
    loop.run_until_complete(many())
    taken = time.perf_counter() - begun
    yield Row(f"{MANY} sessions at once, a turn each", "", f"{number(taken * 1000)} ms", "")
    loop.run_until_complete(host.close())
    loop.close()


async def _answered(host: SessionHost, session: str, after: int = 0) -> int:
    """Send a message and read on from a number until its turn is completed; returns where that was."""
    accepted = await host.send(session, "u" * 200)
    begun = False
    async with aclosing(host.events(session, after=after)) as events:
        async for numbered in events:
            event = numbered.event
            begun = begun or getattr(event, "inbox_id", 0) == accepted.inbox_id
            if begun and isinstance(event, TurnCompleted):
                return numbered.number
    raise RuntimeError("the stream ended before the turn")
