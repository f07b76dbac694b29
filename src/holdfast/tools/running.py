"""One shell command while it runs: its output into a spool, its exit code, and its end with all it started.

Output comes through a pipe of our own: asyncio's would keep `wait` from returning for as long as any
grandchild holds it open.
"""

import asyncio
import codecs
import contextlib
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.core.errors import ToolFailed
from holdfast.core.ids import new_id
from holdfast.tools.output import Spool
from holdfast.tools.process_tree import MARK, UNKNOWN, ProcessTree

SHELLS = ("/bin/bash", "/usr/bin/bash", "/bin/sh")
CHUNK = 65_536
DRAIN = 0.2
"""How long output is awaited from what outlives the shell."""
GRACE = 2.0
LEFT_GRACE = 0.5


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended. `left` says that processes it had left in its group were ended too."""

    code: int
    seconds: float
    left: bool

    @property
    def words(self) -> str:
        how = f"exit code {self.code}" if self.code >= 0 else f"ended by {_signal_name(-self.code)}"
        return f"{how} after {self.seconds:.1f} s"


class RunningCommand:
    """Made by `start_command`. Whoever has it awaits `wait` or `stop`."""

    def __init__(self, process: asyncio.subprocess.Process, tree: ProcessTree, pump: "Pump") -> None:
        self._process = process
        self._tree = tree
        self._pump = pump
        self._started = asyncio.get_running_loop().time()

    async def wait(self) -> Ended:
        """Wait for the shell's end. What it left in its group is ended: nobody would know of it."""
        code = await self._process.wait()
        seconds = asyncio.get_running_loop().time() - self._started
        # A filter in the background, as in `make > >(tee log)`, has a moment to finish by itself.
        left = not await self._tree.settled(DRAIN)
        if left:
            await self._tree.end(LEFT_GRACE, group_only=True)
        await self._pump.finish()
        return Ended(code, seconds, left)

    async def stop(self, grace: float = GRACE) -> None:
        """End the command and all it started. Done to the end even when the caller is cancelled meanwhile."""
        ending = asyncio.ensure_future(self._end(grace))
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            with contextlib.suppress(asyncio.CancelledError):
                await ending
            raise

    async def _end(self, grace: float) -> None:
        await self._tree.end(grace)
        # The child's end is noticed by a watcher that may lag behind.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await self._process.wait()
        await self._pump.finish()


class Pump:
    """Carries output from the pipe to the spool, and as text to whoever watches."""

    def __init__(self, reader: asyncio.StreamReader, transport: asyncio.ReadTransport, spool: Spool) -> None:
        self._reader = reader
        self._transport = transport
        self._spool = spool
        self._task: asyncio.Task[None] | None = None

    def begin(self, on_text: Callable[[str], None]) -> None:
        self._task = asyncio.create_task(self._carry(on_text))

    async def _carry(self, on_text: Callable[[str], None]) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while data := await self._reader.read(CHUNK):
            # At most 64 KiB into the page cache, which costs less than the way to a thread and back.
            self._spool.write(data)
            on_text(decoder.decode(data))

    async def finish(self) -> None:
        """Take what is still in the pipe, and let go of it."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=DRAIN)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._transport.close()
        self._spool.close()


async def start_command(
    command: str,
    folder: Path,
    environment: Mapping[str, str],
    spool: Spool,
    on_text: Callable[[str], None],
) -> RunningCommand:
    """Start a command line in a shell, in a session and process group of its own, with no input."""
    if "\0" in command:
        raise ToolFailed("a command can't hold a NUL character")
    mark = new_id()
    loop = asyncio.get_running_loop()
    out, into = os.pipe()
    reader = asyncio.StreamReader(limit=CHUNK)
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(out, "rb", buffering=0)
    )
    try:
        process = await asyncio.create_subprocess_exec(
            next((each for each in SHELLS if os.access(each, os.X_OK)), "sh"),
            "-c",
            command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=into,
            stderr=into,
            cwd=folder,
            env={**environment, MARK: mark},
            start_new_session=True,
        )
    except BaseException as cause:
        ProcessTree(UNKNOWN, mark).kill()
        transport.close()
        spool.close()
        if isinstance(cause, OSError | ValueError):
            raise ToolFailed(f"the command could not be started: {cause}") from cause
        raise
    finally:
        os.close(into)
    pump = Pump(reader, transport, spool)
    pump.begin(on_text)
    return RunningCommand(process, ProcessTree(process.pid, mark), pump)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
