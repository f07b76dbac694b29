"""Runs one shell command: collects its output, returns its exit code, and ends everything that it started.

The output uses our own pipe. With asyncio's pipe, `wait` would not return while any grandchild holds the pipe
open.
"""

import asyncio
import codecs
import contextlib
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.core.errors import ToolFailed
from holdfast.core.ids import new_id
from holdfast.process import with_original_limit
from holdfast.tools.output import Spool
from holdfast.tools.process_tree import UNKNOWN, ProcessTree, marked
from holdfast.tools.sandbox import Launch

CHUNK = 65_536
DRAIN = 0.2
"""Seconds to wait for the output of processes that outlive the shell."""
GRACE = 2.0
LEFT_GRACE = 0.5
SIGNALLED = 128
KILL_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class CommandExit:
    """How a command ended. `left` says that it had left processes, which were ended too."""

    code: int
    seconds: float
    left: bool

    @property
    def summary(self) -> str:
        how = f"exit code {self.code}" if self.code >= 0 else f"ended by {_signal_name(-self.code)}"
        return f"{how} after {self.seconds:.1f} s"


class RunningCommand:
    """A command that `start_command` started. Its owner must await `wait` or `stop`."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        tree: ProcessTree,
        pump: "OutputPump",
        ending: "_SandboxExit",
    ) -> None:
        self._process = process
        self._tree = tree
        self._pump = pump
        self._ending = ending
        self._over = False
        self._started = asyncio.get_running_loop().time()

    async def wait(self) -> CommandExit:
        """Wait for the end of the shell. Processes that it left in its group are ended too."""
        code = await self._process.wait()
        seconds = asyncio.get_running_loop().time() - self._started
        # A filter in the background, as in `make > >(tee log)`, gets a moment to finish.
        left = not await self._tree.settled(DRAIN)
        if left:
            await self._tree.end(LEFT_GRACE, group_only=True)
        left = self._close() or left
        await self._pump.finish()
        return CommandExit(self._ending.code(code), seconds, left)

    async def stop(self, grace: float = GRACE) -> None:
        """End the command and everything it started, even when the caller is cancelled meanwhile."""
        ending = asyncio.ensure_future(self._end(grace))
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            with contextlib.suppress(asyncio.CancelledError):
                await ending
            raise

    async def _end(self, grace: float) -> None:
        await asyncio.gather(self._tree.end(grace), self._ending.kill())
        # asyncio may notice the end of the child a little later.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await self._process.wait()
        self._close()
        await self._pump.finish()

    def _close(self) -> bool:
        """Close the sandbox once; returns whether processes were left in it."""
        over, self._over = self._over, True
        return not over and self._ending.processes_left()


class OutputPump:
    """Copies output from the pipe to the spool, and as text to a callback."""

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
            # A write of at most 64 KiB to the page cache costs less than a switch to a thread.
            self._spool.write(data)
            on_text(decoder.decode(data))

    async def finish(self) -> None:
        """Read the rest of the pipe, and close it."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=DRAIN)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._transport.close()
        self._spool.close()


async def start_command(launch: Launch, spool: Spool, on_text: Callable[[str], None]) -> RunningCommand:
    """Start a command in its own session and process group, without input."""
    mark = new_id()
    out, into = os.pipe()
    left, say_left = os.pipe()
    reader = asyncio.StreamReader(limit=CHUNK)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(out, "rb", buffering=0)
    )
    try:
        process = await asyncio.create_subprocess_exec(
            *with_original_limit([*launch.argv]),
            # The script in a sandbox reports through this descriptor that processes were left.
            stdin=say_left if launch.wrapped and not launch.kill else asyncio.subprocess.DEVNULL,
            stdout=into,
            stderr=into,
            cwd=launch.folder,
            env=marked(launch.environment, mark),
            start_new_session=True,
            pass_fds=launch.files,
        )
    except BaseException as cause:
        ProcessTree(UNKNOWN, mark).kill()
        transport.close()
        spool.close()
        os.close(left)
        if isinstance(cause, OSError | ValueError):
            raise ToolFailed(f"the command could not be started: {cause}") from cause
        raise
    finally:
        os.close(into)
        os.close(say_left)
        launch.close()
    pump = OutputPump(reader, transport, spool)
    pump.begin(on_text)
    watched = launch.wrapped
    return RunningCommand(
        process, ProcessTree(process.pid, mark, watched=watched), pump, _SandboxExit(launch, left)
    )


class _SandboxExit:
    """The additional steps at the end of a command in a sandbox. Without a sandbox there are none."""

    def __init__(self, launch: Launch, left: int) -> None:
        self._launch = launch
        self._left = left

    def code(self, code: int) -> int:
        """The exit code of the shell, negative when a signal ended it, as in `subprocess`."""
        if self._launch.wrapped and code > SIGNALLED and code - SIGNALLED in set(signal.Signals):
            return SIGNALLED - code
        return code

    def processes_left(self) -> bool:
        """Whether processes were left inside. Call it once, after the end."""
        os.set_blocking(self._left, False)
        try:
            return bool(os.read(self._left, 1))
        except OSError:
            return False
        finally:
            os.close(self._left)

    async def kill(self) -> None:
        """End a container, whose processes are not children of this program."""
        if not self._launch.kill:
            return
        with contextlib.suppress(OSError, TimeoutError):
            killer = await asyncio.create_subprocess_exec(
                *self._launch.kill,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env=dict(self._launch.environment),
                start_new_session=True,
            )
            async with asyncio.timeout(KILL_SECONDS):
                await killer.wait()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
