"""Real host processes for tests, each behind an object that sends it commands and keeps what it tells."""

import asyncio
import json
import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.agent.agent_fixtures import until

SHOWN_WITHIN = 60.0


@contextmanager
def _write_lock(url: str) -> Iterator[None]:
    """Hold SQLite's write lock; on PostgreSQL there is none."""
    if not url.startswith("sqlite:///"):
        yield
        return
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=SHOWN_WITHIN)) as connection:
        connection.execute("begin immediate")
        yield
        connection.rollback()


def _stands_still(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


class HostProcess:
    """A node of `host_program.py`. Commands are answered in any order."""

    def __init__(self, process: asyncio.subprocess.Process, url: str, errors: Path) -> None:
        self._process = process
        self._url = url
        self._errors = errors
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._count = 0
        self.told: list[dict[str, Any]] = []
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, url: str, folder: Path, **options: Any) -> "HostProcess":  # noqa: ANN401
        errors = folder / "errors"
        with errors.open("a") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.host.host_program", url, str(folder), json.dumps(options)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env={**os.environ},
                limit=50_000_000,
            )
        node = cls(process, url, errors)
        await until(lambda: node.is_ready or node.ended)
        # One that is ready may have ended already, of what it found to do.
        assert node.is_ready, errors.read_text()
        return node

    @property
    def is_ready(self) -> bool:
        return any("ready" in line for line in self.told)

    @property
    def ended(self) -> bool:
        return self._reading.done()

    async def do(self, name: str, **given: Any) -> Any:  # noqa: ANN401
        """Give a command; its result, or `ConnectionError` when the process died before it answered."""
        answer = await self.ask(name, **given)
        if "error" in answer:
            raise AssertionError(f"{name}: {answer['error']}: {answer['said']}")
        return answer["result"]

    async def ask(self, name: str, **given: Any) -> dict[str, Any]:  # noqa: ANN401
        self._count += 1
        number = self._count
        self._answers[number] = asyncio.get_running_loop().create_future()
        self._command(number, name, given)
        return await self._answers[number]

    def events(self, session_id: str, *kinds: str) -> list[dict[str, Any]]:
        events = [line["event"] for line in self.told if line.get("session") == session_id]
        return [event for event in events if not kinds or event["kind"] in kinds]

    async def shows(self, session_id: str, kind: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait until so many events of a kind were shown to whoever follows here."""
        try:
            async with asyncio.timeout(SHOWN_WITHIN):
                await until(lambda: len(self.events(session_id, kind)) >= count)
        except TimeoutError:
            shown = "\n".join(map(str, self.events(session_id)))
            problem = f"{kind} was not shown {count} times, but:\n{shown}\n{self._errors.read_text()[-4000:]}"
            raise AssertionError(problem) from None
        return self.events(session_id, kind)

    def pause(self) -> None:
        """SIGSTOP: the process stands still, as it does while a laptop sleeps; on SQLite between two writes.

        One that stands still with SQLite's write lock keeps every other process from writing.
        """
        with _write_lock(self._url):
            self._process.send_signal(signal.SIGSTOP)
            while not _stands_still(self._process.pid):
                os.sched_yield()

    def wake(self) -> None:
        """SIGCONT: it goes on, and knows nothing of the pause."""
        self._process.send_signal(signal.SIGCONT)

    async def kill(self) -> None:
        """SIGKILL: the process gets no chance to do anything."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await self._reading

    async def close(self) -> None:
        """Ask it to end in good order, and wait."""
        with suppress(ConnectionError):
            self._command(0, "close", {})
        await self._reading
        assert await self._process.wait() == 0, self._errors.read_text()

    def _command(self, number: int, name: str, given: dict[str, Any]) -> None:
        if self.ended:
            raise ConnectionError("the process has ended")
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps({'id': number, 'do': name, 'with': given})}\n".encode())

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            told = json.loads(line)
            if "answer" in told:
                self._answers.pop(told["answer"]).set_result(told)
            else:
                self.told.append(told)
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(ConnectionError("the process died"))


Start = Callable[..., Any]


@asynccontextmanager
async def host_processes(url: str, folder: Path) -> AsyncIterator[Start]:
    """Starts processes on one store; those that still live at the end are killed."""
    started: list[HostProcess] = []

    async def start(**options: Any) -> HostProcess:  # noqa: ANN401
        started.append(await HostProcess.start(url, folder, **options))
        return started[-1]

    try:
        yield start
    finally:
        for process in started:
            await process.kill()
