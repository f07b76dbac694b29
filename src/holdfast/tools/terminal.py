"""The foreground command: live output, an exit code, and an end that takes everything it started along.

Read `running.py` first. Commands that are to go on beside the turn are in `processes.py`.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field

from holdfast.core.errors import ToolFailed
from holdfast.tools.contract import ApprovalRequest, Tool, ToolContext, ToolResult
from holdfast.tools.decorator import tool
from holdfast.tools.output import ResultBudget, readable
from holdfast.tools.running import RunningCommand, start_command

COMMAND_SECONDS = 120
LONGEST_SECONDS = 3600
INTERRUPT_GRACE = 0.3
LIVE_EVERY = 0.1
LIVE_CHARACTERS = 4000
REFUSED = ToolResult(
    "The person did not allow this command, and it was not run. Ask them what they would like instead, "
    "or go on without it.",
    ok=False,
)


class LiveOutput:
    """Shows output as it comes, in few and short events: of a flood only the last of each moment."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._waiting = ""
        self._timer: asyncio.TimerHandle | None = None

    def take(self, text: str) -> None:
        self._waiting += text
        if len(self._waiting) > LIVE_CHARACTERS:
            self._waiting = "…" + self._waiting[-LIVE_CHARACTERS:]
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LIVE_EVERY, self._show)

    def close(self) -> None:
        """Show what waits, and nothing after that."""
        if self._timer is not None:
            self._timer.cancel()
        self._show()

    def _show(self) -> None:
        self._timer = None
        waiting, self._waiting = self._waiting, ""
        if waiting:
            self._say(readable(waiting.encode("utf-8", "replace")))


def folder_in(workspace: Path, name: str) -> Path:
    """A folder of the workspace in which a command may run."""
    try:
        folder = (workspace / name).resolve(strict=True)
    except (OSError, ValueError) as cause:
        raise ToolFailed(f"there is no folder {name!r}: {cause}") from cause
    if not folder.is_relative_to(workspace.resolve()):
        raise ToolFailed(f"{name!r} is outside the workspace; use `cd` in the command itself")
    if not folder.is_dir():
        raise ToolFailed(f"{name!r} is not a folder")
    return folder


def terminal_tool(environment: Mapping[str, str], budget: ResultBudget) -> Tool:
    """The tool `run_command`. `environment` is what commands see (`child_environment`)."""

    @tool(timeout=None)
    async def run_command(
        command: Annotated[str, Field(min_length=1)],
        context: ToolContext,
        seconds: Annotated[int, Field(ge=1, le=LONGEST_SECONDS)] = COMMAND_SECONDS,
        folder: str = ".",
    ) -> ToolResult:
        """Run a shell command and wait for its end. It gets no input.

        Gives its output, standard error included, and its exit code. Processes that it leaves behind are
        ended with it; for servers and watchers use start_process.

        Args:
            command: the command line, as for bash
            seconds: how long it may take before it is ended
            folder: where it runs, a folder of the workspace

        """
        place = folder_in(context.workspace, folder)
        if not await context.person.approve(ApprovalRequest(subject=command, kind="command")):
            return REFUSED
        live = LiveOutput(context.say)
        with budget.spool(context.session_id) as spool:
            running = await start_command(command, place, environment, spool, live.take)
            said, ok = await _outcome(running, seconds)
            live.close()
            shown = spool.shown().rstrip("\n")
        return ToolResult(f"{shown or '(no output)'}\n[{said}]", ok=ok)

    return run_command


async def _outcome(running: RunningCommand, seconds: int) -> tuple[str, bool]:
    try:
        async with asyncio.timeout(seconds):
            ended = await running.wait()
    except TimeoutError:
        await running.stop()
        return f"it took more than {seconds} s and was ended, with all it had started", False
    except BaseException:
        await running.stop(INTERRUPT_GRACE)
        raise
    left = "; processes that it had left running were ended" if ended.left else ""
    return f"{ended.words}{left}", ended.code == 0
