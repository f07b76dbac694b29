"""Background processes: tools to start, list, read and stop them. The end of one is sent as a message.

Read `shell_command.py` first. One `Processes` belongs to one agent; `close` ends all processes that still
run.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from holdfast.core.errors import ToolFailed
from holdfast.tools.command_paths import command_request
from holdfast.tools.contract import Tool, ToolContext, ToolResult
from holdfast.tools.decorator import tool
from holdfast.tools.output import ResultBudget, Spool, format_slice
from holdfast.tools.sandbox_choice import CommandSandbox
from holdfast.tools.shell_command import CommandExit, RunningCommand, start_command
from holdfast.tools.terminal import folder_in_workspace, refused

logger = logging.getLogger(__name__)

Deliver = Callable[[str, str], Awaitable[object]]
"""`await deliver(session_id, message)` puts a message into a session's inbox."""

MAX_RUNNING = 16
CLOSE_GRACE = 1.0
FINAL_OUTPUT = 2000
MAX_WAIT_SECONDS = 60


@dataclass(slots=True)
class BackgroundProcess:
    """One process. `ended` is set when it has ended; `stopped` says that the agent stopped it."""

    id: str
    scope: str
    session_id: str
    command: str
    running: RunningCommand
    spool: Spool
    done: asyncio.Event
    watch: "asyncio.Task[None] | None" = None
    ended: CommandExit | None = None
    stopped: bool = False

    @property
    def state(self) -> str:
        if self.ended is not None:
            return self.ended.summary
        return "stopped" if self.stopped else "running"


class Processes:
    """The background processes of one agent. Used on the loop's thread only."""

    def __init__(
        self, environment: Mapping[str, str], budget: ResultBudget, deliver: Deliver, sandbox: CommandSandbox
    ) -> None:
        self.environment = environment
        self._sandbox = sandbox
        self._budget = budget
        self._deliver = deliver
        self._known: dict[str, BackgroundProcess] = {}
        self._closing = asyncio.Event()

    async def ready(self) -> None:
        """Raise `ToolFailed` when commands are refused, before a person is asked about one."""
        await self._sandbox.ready()

    async def start(self, command: str, context: ToolContext, folder: str) -> BackgroundProcess:
        """Start a command; its end is delivered to the session."""
        if self._closing.is_set():
            raise ToolFailed("this agent is being closed and starts nothing more")
        if sum(not each.done.is_set() for each in self.listed(context.scope)) >= MAX_RUNNING:
            raise ToolFailed(f"{MAX_RUNNING} processes run already; stop one first")
        directory = folder_in_workspace(context.workspace, folder)
        spool = self._budget.of(context.scope).spool(context.session_id, at_once=True)
        try:
            launch, _ = await self._sandbox.launch(command, context, directory, self.environment)
        except BaseException:
            spool.close()
            raise
        running = await start_command(launch, spool, lambda _: None)
        if self._closing.is_set():  # meanwhile
            await running.stop(CLOSE_GRACE)
            raise ToolFailed("this agent is being closed; the process was ended again")
        name = f"p{len(self._known) + 1}"
        process = BackgroundProcess(
            name, context.scope, context.session_id, command, running, spool, asyncio.Event()
        )
        self._known[name] = process
        process.watch = asyncio.create_task(self._watch(process), name=f"process {name}")
        return process

    def listed(self, scope: str) -> list[BackgroundProcess]:
        """The processes of a scope."""
        return [each for each in self._known.values() if each.scope == scope]

    def get(self, name: str, scope: str) -> BackgroundProcess:
        known = {each.id: each for each in self.listed(scope)}
        if name not in known:
            raise ToolFailed(f"there is no process {name!r}; there are: {', '.join(known) or 'none'}")
        return known[name]

    async def stop(self, name: str, scope: str) -> BackgroundProcess:
        """End a process and everything it started. No message is sent, because the caller knows."""
        process = self.get(name, scope)
        if not process.done.is_set():
            process.stopped = True
            await process.running.stop()
            await process.done.wait()
        return process

    async def close(self) -> None:
        """End all processes. It may be called again."""
        self._closing.set()
        left = [each for each in self._known.values() if not each.done.is_set()]
        for process in left:
            process.stopped = True
        await asyncio.gather(*(each.running.stop(CLOSE_GRACE) for each in left))
        watches = [each.watch for each in self._known.values() if each.watch is not None]
        await asyncio.gather(*watches, return_exceptions=True)

    async def _watch(self, process: BackgroundProcess) -> None:
        try:
            process.ended = await process.running.wait()
        finally:
            process.done.set()
        if process.stopped:
            return
        try:
            await self._deliver(process.session_id, self._exit_message(process, process.ended))
        except Exception:
            logger.exception("process.end_not_delivered", extra={"background": process.id})

    @staticmethod
    def _exit_message(process: BackgroundProcess, ended: CommandExit) -> str:
        message = f"The background process {process.id} (`{process.command}`) has ended: {ended.summary}."
        output = process.spool.last(FINAL_OUTPUT).strip()
        return f"{message} Its last output:\n{output}" if output else f"{message} It printed nothing."


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
        directory = folder_in_workspace(context.workspace, folder)
        await processes.ready()
        request = await context.off_loop(
            command_request,
            *(command, directory, processes.environment, context.own_files, "goes on in the background"),
        )
        if not await context.person.approve(request):
            return refused(request, context.person)
        process = await processes.start(command, context, folder)
        return ToolResult(f"started as {process.id}")

    @tool(changes=False)
    async def list_processes(context: ToolContext) -> str:
        """List the background processes, with their state."""
        known = processes.listed(context.scope)
        return "\n".join(f"{each.id}: {each.state}: {each.command}" for each in known) or "none"

    @tool(changes=False)
    async def read_process(
        id: str,  # noqa: A002 - the word the tools use
        context: ToolContext,
        offset: Annotated[int | None, Field(ge=0)] = None,
        wait: Annotated[int, Field(ge=0, le=MAX_WAIT_SECONDS)] = 0,
    ) -> str:
        """Read the output of a background process, by default its latest.

        Args:
            id: the process, such as p1
            offset: the byte to read from
            wait: how many seconds to wait for its end before reading

        """
        process = processes.get(id, context.scope)
        if wait:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await process.done.wait()
        if offset is not None:
            piece = await context.off_loop(budget.of(context.scope).read, process.spool.id, offset)
            return f"{process.id} {process.state}\n{format_slice(piece)}"
        size = process.spool.size
        return f"{process.id} {process.state}\n{process.spool.last()}\n[the end of {size} bytes so far]"

    @tool
    async def stop_process(id: str, context: ToolContext) -> str:  # noqa: A002 - the word the tools use
        """Stop a background process and everything it started.

        Args:
            id: the process, such as p1

        """
        return f"{id}: {(await processes.stop(id, context.scope)).state}"

    return [start_process, list_processes, read_process, stop_process]
