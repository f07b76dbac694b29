"""A host in a process of its own, told what to do on stdin and telling what happens on stdout, in JSON lines.

`python -m tests.host.host_program URL FOLDER OPTIONS`. Its model does what the last message says: `hold PATH`
answers once that file is there, `tool PATH` calls a tool that waits for it, `ask TEXT` asks the person,
`die` kills the process, `long` answers at length, anything else is echoed. Its memory provider writes what it
gets to `turns` and `commits` in FOLDER.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from inspect import isawaitable
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from holdfast.core.errors import HoldfastError
from holdfast.host import HostOptions, SessionHost
from holdfast.memory import MemoryManager
from holdfast.models.contract import ModelRequest
from holdfast.sessions import Engine, SessionDB, Transaction
from holdfast.sessions.lease_keeper import LEASE_SECONDS
from holdfast.testing import Call, ScriptedModel
from holdfast.testing.faults import EngineProxy, name_of
from holdfast.testing.providers import RecordingProvider
from holdfast.tools.contract import ToolContext
from tests.agent.agent_fixtures import a_tool, until
from tests.host.host_fixtures import a_host
from tests.sessions.store_fixtures import until as wait_for

T = TypeVar("T")

ANSWERS = 1_000


class FileProvider(RecordingProvider):
    """Writes each delivered turn's key, and each committed stretch, as one line."""

    def __init__(self, folder: Path, gate: str) -> None:
        """A commit ends once there is a file of the name `gate`, if one is named."""
        super().__init__("file")
        self._folder = folder
        self._gate = gate

    def sync_turns(self, turns: Any) -> None:  # noqa: ANN401
        self._append("turns", [{"key": turn.key, "said": turn.user_content} for turn in turns])

    def on_session_end(self, messages: Any) -> None:  # noqa: ANN401
        self._append("commits", [[message["content"] for message in messages]])
        if self._gate:
            wait_for(lambda: Path(self._gate).exists())

    def _append(self, name: str, lines: list[Any]) -> None:
        with (self._folder / name).open("a") as file:
            file.write("".join(f"{json.dumps(line)}\n" for line in lines))


class KillingEngine(EngineProxy):
    """The process dies by SIGKILL right after an operation of this name is committed."""

    def __init__(self, engine: Engine, name: str) -> None:
        super().__init__(engine)
        self._name = name

    def done(self, work: Callable[[Transaction], T]) -> None:
        if name_of(work) == self._name:
            os.kill(os.getpid(), signal.SIGKILL)


async def answer(request: ModelRequest) -> Any:  # noqa: ANN401
    last = request.messages[-1]
    if last["role"] == "tool":
        return "the tool is done"
    word, _, rest = str(last["content"]).split("\n\n")[-1].partition(" ")
    if word == "hold":
        await until(Path(rest).exists)
        return f"held {rest}"
    if word == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if word == "ask":
        return Call("ask", {"question": rest})
    if word == "tool":
        return Call("wait", {"path": rest})
    return "word " * 300 if word == "long" else f"echo {last['content']}"


async def wait_for_file(_: ToolContext, arguments: dict[str, Any]) -> str:
    await until(Path(arguments["path"]).exists)
    return "it is there"


async def ask_person(context: ToolContext, arguments: dict[str, Any]) -> str:
    return f"the person says {await context.person.answer(arguments['question'])}"


def build(url: str, folder: Path, options: Mapping[str, Any]) -> SessionHost:
    lease = options.get("lease", LEASE_SECONDS)
    db = SessionDB.open(url, lease_seconds=lease, patience=options.get("patience", 30.0))
    if options.get("kill_after"):
        engine = KillingEngine(db._engine, options["kill_after"])  # noqa: SLF001 - a store is built on an engine
        db = SessionDB.on(engine, lease_seconds=lease)
    memory = MemoryManager(db, drain_seconds=1.0)
    if options.get("memory"):
        memory.add_provider(FileProvider(folder, options.get("commit_gate", "")))

    def model(_: str) -> ScriptedModel:
        return ScriptedModel(
            [answer] * ANSWERS, context_window=options.get("window", 1_000_000), record=False
        )

    chosen = HostOptions(**{"poll_seconds": 0.05, "shutdown_seconds": 3.0, **options.get("host", {})})
    tools = [a_tool("wait", wait_for_file), a_tool("ask", ask_person, timeout=None)]
    return a_host(db, model, tools=tools, memory=memory, options=chosen)


class Node:
    """One host and whoever commands it."""

    def __init__(self, host: SessionHost) -> None:
        self._host = host
        self._tasks: set[asyncio.Task[None]] = set()

    def tell(self, **what: Any) -> None:  # noqa: ANN401
        sys.stdout.write(f"{json.dumps(what)}\n")
        sys.stdout.flush()

    async def serve(self, commands: asyncio.StreamReader) -> None:
        async with self._host:
            self.tell(ready=True)
            while line := await commands.readline():
                command = json.loads(line)
                if command["do"] == "close":
                    break
                task = asyncio.create_task(self._obey(command["id"], command["do"], command["with"]))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        self.tell(closed=True)

    async def _obey(self, number: int, do: str, given: dict[str, Any]) -> None:
        try:
            if do == "follow":
                self._follow(given["session_id"])
                result: Any = None
            else:
                result = attrgetter(do)(self._host)(**given)
                result = await result if isawaitable(result) else result
        except (HoldfastError, AttributeError, TypeError) as problem:  # also: no such command
            self.tell(answer=number, error=type(problem).__name__, said=str(problem))
        else:
            plain = result if isinstance(result, (str, bool, type(None))) else repr(result)
            self.tell(answer=number, result=plain)

    def _follow(self, session_id: str) -> None:
        async def read() -> None:
            async for numbered in self._host.events(session_id):
                self.tell(session=session_id, event=numbered.event.to_json())

        task = asyncio.create_task(read())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def main(url: str, folder: str, options: str) -> None:
    commands = asyncio.StreamReader(limit=10_000_000)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    await Node(build(url, Path(folder), json.loads(options))).serve(commands)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt, BrokenPipeError):
        asyncio.run(main(*sys.argv[1:]))
