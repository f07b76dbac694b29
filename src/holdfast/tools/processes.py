"""Commands that go on beside the turn: started, listed, read, stopped; their end becomes a message.

Read `running.py` first. One `Processes` belongs to one agent; `close` ends all that still run.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from holdfast.core.errors import ToolFailed
from holdfast.tools.contract import ApprovalRequest, Tool, ToolContext, ToolResult
from holdfast.tools.decorator import tool
from holdfast.tools.output import ResultBudget, Spool, told
from holdfast.tools.running import Ended, RunningCommand, start_command
from holdfast.tools.terminal import REFUSED, folder_in

logger = logging.getLogger(__name__)

Deliver = Callable[[str, str], Awaitable[object]]
"""`await deliver(session_id, message)` puts a message into a session's inbox."""

MOST_RUNNING = 16
CLOSE_GRACE = 1.0
TOLD_AT_END = 2000
LONGEST_WAIT = 60


@dataclass(slots=True)
class Background:
    """One process. It has ended when `ended` is set, and was ended on purpose when `stopped` is."""

    id: str
    session_id: str
    command: str
    running: RunningCommand
    spool: Spool
    done: asyncio.Event
    watch: "asyncio.Task[None] | None" = None
    ended: Ended | None = None
    stopped: bool = False

    @property
    def state(self) -> str:
        if self.ended is not None:
            return self.ended.words
        return "stopped" if self.stopped else "running"


class Processes:
    """The background processes of one agent. Used on the loop's thread only."""

    def __init__(self, environment: Mapping[str, str], budget: ResultBudget, deliver: Deliver) -> None:
        self._environment = environment
        self._budget = budget
        self._deliver = deliver
        self._known: dict[str, Background] = {}
        self._closed = False

    async def start(self, command: str, context: ToolContext, folder: str) -> Background:
        """Start a command; its end is delivered to the session."""
        if self._closed:
            raise ToolFailed("this agent is being closed and starts nothing more")
        if sum(not each.done.is_set() for each in self._known.values()) >= MOST_RUNNING:
            raise ToolFailed(f"{MOST_RUNNING} processes run already; stop one first")
        place = folder_in(context.workspace, folder)
        spool = self._budget.spool(context.session_id, at_once=True)
        running = await start_command(command, place, self._environment, spool, lambda _: None)
        name = f"p{len(self._known) + 1}"
        process = Background(name, context.session_id, command, running, spool, asyncio.Event())
        self._known[name] = process
        process.watch = asyncio.create_task(self._watch(process), name=f"process {name}")
        return process

    def listed(self) -> list[Background]:
        return list(self._known.values())

    def get(self, name: str) -> Background:
        if name not in self._known:
            raise ToolFailed(f"there is no process {name!r}; there are: {', '.join(self._known) or 'none'}")
        return self._known[name]

    async def stop(self, name: str) -> Background:
        """End a process and all it started; that end is not delivered, since the caller knows."""
        process = self.get(name)
        if not process.done.is_set():
            process.stopped = True
            await process.running.stop()
            await process.done.wait()
        return process

    async def close(self) -> None:
        """End everything. Idempotent."""
        self._closed = True
        left = [each for each in self._known.values() if not each.done.is_set()]
        for process in left:
            process.stopped = True
        await asyncio.gather(*(each.running.stop(CLOSE_GRACE) for each in left))
        watches = [each.watch for each in self._known.values() if each.watch is not None]
        await asyncio.gather(*watches, return_exceptions=True)

    async def _watch(self, process: Background) -> None:
        try:
            process.ended = await process.running.wait()
        finally:
            process.done.set()
        if process.stopped:
            return
        try:
            await self._deliver(process.session_id, self._last_word(process, process.ended))
        except Exception:
            logger.exception("process.end_not_delivered", extra={"background": process.id})

    def _last_word(self, process: Background, ended: Ended) -> str:
        start = max(0, process.spool.size - TOLD_AT_END)
        said = f"The background process {process.id} (`{process.command}`) has ended: {ended.words}."
        try:
            output = self._budget.read(process.spool.id, start, TOLD_AT_END).text.strip()
        except ToolFailed as cause:
            output = str(cause)
        return f"{said} Its last output:\n{output}" if output else f"{said} It printed nothing."


def process_tools(processes: Processes, budget: ResultBudget) -> list[Tool]:
    """The tools for background processes."""

    @tool(timeout=None)
    async def start_process(
        command: Annotated[str, Field(min_length=1)], context: ToolContext, folder: str = "."
    ) -> ToolResult:
        """Start a shell command that goes on in the background, such as a server or a long build.

        You get a message when it ends. Read its output with read_process.

        Args:
            command: the command line, as for bash
            folder: where it runs, a folder of the workspace

        """
        request = ApprovalRequest(subject=command, kind="command", reason="goes on in the background")
        if not await context.person.approve(request):
            return REFUSED
        process = await processes.start(command, context, folder)
        return ToolResult(f"started as {process.id}")

    @tool(changes=False)
    async def list_processes() -> str:
        """List the background processes, with their state."""
        return "\n".join(f"{each.id}: {each.state}: {each.command}" for each in processes.listed()) or "none"

    @tool(changes=False)
    async def read_process(
        id: str,  # noqa: A002 - the word the tools use
        context: ToolContext,
        offset: Annotated[int | None, Field(ge=0)] = None,
        wait: Annotated[int, Field(ge=0, le=LONGEST_WAIT)] = 0,
    ) -> str:
        """Read the output of a background process, by default its latest.

        Args:
            id: the process, such as p1
            offset: the byte to read from
            wait: how many seconds to wait for its end before reading

        """
        process = processes.get(id)
        if wait:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await process.done.wait()
        start = max(0, process.spool.size - budget.characters) if offset is None else offset
        piece = await context.off_loop(budget.read, process.spool.id, start)
        return f"{process.id} {process.state}\n{told(piece)}"

    @tool
    async def stop_process(id: str) -> str:  # noqa: A002 - the word the tools use
        """Stop a background process and everything it started.

        Args:
            id: the process, such as p1

        """
        return f"{id}: {(await processes.stop(id)).state}"

    return [start_process, list_processes, read_process, stop_process]
