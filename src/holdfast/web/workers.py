"""`holdfast web --workers N`: several processes that serve one address, on one store in PostgreSQL.

This process listens and starts the workers, which take connections from its socket; any of them serves any
conversation. A worker that dies is started again. Signals are handed on; each worker ends as a single server
does. A worker reads from this process's end of a pipe: when this process is killed, it ends too. A worker
whose model is changed says so, and this process tells the others.
"""

import asyncio
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from holdfast.core.errors import InvalidInput
from holdfast.core.settings import StoreSettings
from holdfast.core.stop_signal import StoppedBySignal
from holdfast.process import StopSignals, with_original_limit

logger = logging.getLogger(__name__)

READY = b"ready"
MODEL = b"model "
"""What the pipes carry, a line each: a worker serves; another model is used, by its name as JSON."""
READ_BYTES = 65_536
MOST_WORKERS = 64
PAUSES = (0.5, 30.0)
"""The pause before a worker that died is started again: the first, and the longest."""
LONG_LIFE = 60.0
END_SECONDS = 5.0
"""How much longer a worker is waited for than its exit watchdog gives it. While it is paused, it has none."""


def require_workers(count: int, store: StoreSettings) -> None:
    """Refuse a number or a store that workers can't share."""
    if not 1 <= count <= MOST_WORKERS:
        raise InvalidInput(
            f"--workers is a number from 1 to {MOST_WORKERS}, not {count}; nothing was started"
        )
    if count > 1 and not store.is_shared:
        raise InvalidInput(
            f"--workers {count} needs a store on PostgreSQL, and this one is on SQLite; nothing was started. "
            "One process serves a SQLite store faster than several. Set HOLDFAST_STORE_URL to a "
            "postgresql:// address, or leave out --workers."
        )


class WorkersFailed(Exception):
    """A worker ended before any of them served; it has said why. `code` is its exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"a worker ended with exit code {code} before it served")
        self.code = code


class Workers:
    """The worker processes of one server. Everything on one loop."""

    def __init__(self, listening: socket.socket, options: Sequence[str], watchdog_seconds: float) -> None:
        self._listening = listening
        self._options = options
        self._end_seconds = watchdog_seconds + END_SECONDS
        self._running: dict[asyncio.subprocess.Process, int] = {}  # with the pipe that each reads from
        self._model = b""  # the last line that named a model
        self._served = asyncio.Event()
        self._stopping: signal.Signals | None = None
        self._stop_requested = asyncio.Event()

    async def serve(self, count: int, on_ready: Callable[[], None]) -> None:
        """Keep so many workers until a signal comes; `on_ready` is called once, when the first one serves."""
        loop = asyncio.get_running_loop()

        def hand_on(signum: signal.Signals) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._stop, signum)

        with StopSignals(on_stop=hand_on, on_skip=hand_on):
            kept = [asyncio.create_task(self._keep_one()) for _ in range(count)]
            announced = asyncio.create_task(self._announce(on_ready))
            stopped = asyncio.create_task(self._stop_requested.wait())
            try:
                ended, _ = await asyncio.wait(
                    [*kept, announced, stopped], return_when=asyncio.FIRST_COMPLETED
                )
                await asyncio.gather(*ended)
            finally:
                announced.cancel()
                stopped.cancel()
                self._stop(self._stopping or signal.SIGTERM)
                await self._end(kept)
        if self._stopping == signal.SIGINT:
            raise KeyboardInterrupt
        if self._stopping is not None:
            raise StoppedBySignal(self._stopping)

    async def _announce(self, on_ready: Callable[[], None]) -> None:
        """Call `on_ready` when the first worker serves; ends with the server, or with its error."""
        await self._served.wait()
        on_ready()
        await self._stop_requested.wait()

    async def _keep_one(self) -> None:
        """Start a worker, and another one whenever it ends by itself."""
        loop = asyncio.get_running_loop()
        pause = PAUSES[0]
        while not self._stop_requested.is_set():
            began = loop.time()
            try:
                code = await self._run_one()
                ended = f"a worker ended with exit code {code}"
            except OSError as cause:  # too little memory, or too many processes or files
                if not self._served.is_set():
                    raise
                code, ended = None, f"a worker can't be started: {cause.strerror}"
            if self._stop_requested.is_set():
                return
            if code is not None and not self._served.is_set():
                raise WorkersFailed(code)
            pause = PAUSES[0] if loop.time() - began > LONG_LIFE else min(2 * pause, PAUSES[1])
            logger.warning("web.worker_died", extra={"code": code, "pause": pause})
            sys.stderr.write(f"{ended}; another is started in {pause:.0f} s\n")
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stop_requested.wait()

    async def _run_one(self) -> int:
        # Pipes of our own: asyncio would wait for the end of its pipes too, and whatever the worker has
        # started may hold those for longer than the worker lives.
        with _pipe() as (said, out), _pipe() as (life, told):
            os.set_blocking(told, False)
            program = (sys.executable, "-m", "holdfast", "web", *self._options)
            worker = await asyncio.create_subprocess_exec(
                # It raises the limit itself, and must know the original one for what it starts.
                *with_original_limit((*program, "--socket", str(self._listening.fileno()))),
                stdin=life,
                stdout=out,
                pass_fds=[self._listening.fileno()],
                start_new_session=True,  # Ctrl-C in a terminal comes here, and is handed on once
            )
            self._running[worker] = told
            loop, lines = asyncio.get_running_loop(), PipeLines(said)

            def read() -> None:
                for line in lines.read() or ():
                    self._hear(worker, line)

            loop.add_reader(said, read)
            try:
                if self._stopping is not None:
                    worker.send_signal(self._stopping)
                return await worker.wait()
            finally:
                loop.remove_reader(said)
                del self._running[worker]

    def _hear(self, worker: asyncio.subprocess.Process, line: bytes) -> None:
        """A line of a worker; what plugins print is none of ours."""
        if line == READY:
            # One that was started again has the model of the settings.
            self._tell(self._running[worker], self._model)
            self._served.set()
        elif line.startswith(MODEL):
            self._model = line
            for other, told in self._running.items():
                if other is not worker:
                    self._tell(told, line)

    @staticmethod
    def _tell(told: int, line: bytes) -> None:
        if line:
            with suppress(OSError):  # it ends, or has not read for very long
                os.write(told, line + b"\n")

    def _stop(self, signum: signal.Signals) -> None:
        self._stopping = self._stopping or signum
        self._stop_requested.set()
        for worker in self._running:
            with suppress(ProcessLookupError):
                worker.send_signal(signum)

    async def _end(self, kept: Sequence["asyncio.Task[None]"]) -> None:
        _, late = await asyncio.wait(kept, timeout=self._end_seconds)
        for worker in self._running:
            with suppress(ProcessLookupError):
                worker.kill()
        for task in late:
            task.cancel()


@contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    try:
        yield ends
    finally:
        for each in ends:
            os.close(each)


class PipeLines:
    """The lines of a pipe, as they come."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._rest = b""

    def read(self) -> list[bytes] | None:
        """The lines that have come; None when the other end is closed."""
        found = os.read(self._file, READ_BYTES)
        *lines, rest = (self._rest + found).split(b"\n")
        self._rest = rest[-READ_BYTES:]
        return lines if found else None


def tell_ready() -> None:
    """Tell the process that started this worker that it serves."""
    _say_to_parent(READY)


def tell_model(name: str) -> None:
    """Tell the other workers that another model is used; an empty name is that of the settings."""
    _say_to_parent(MODEL + json.dumps(name).encode())


def _say_to_parent(line: bytes) -> None:
    with suppress(OSError):  # the parent is gone, and this worker is about to end
        # Something else may have been printed without its end.
        sys.stdout.buffer.write(b"\n" + line + b"\n")
        sys.stdout.buffer.flush()


def listen_to_parent(loop: asyncio.AbstractEventLoop, on_model: Callable[[str], None]) -> None:
    """Hear which model is used, and end when the process that started this worker is gone: its pipe ends."""
    lines = PipeLines(0)

    def read() -> None:
        found = lines.read()
        if found is None:
            loop.remove_reader(0)
            os.kill(os.getpid(), signal.SIGTERM)
        for line in found or ():
            if line.startswith(MODEL):
                on_model(json.loads(line.removeprefix(MODEL)))

    loop.add_reader(0, read)
