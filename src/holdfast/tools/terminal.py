"""The tool `run_command`: runs a command in the foreground, with live output, and waits for its end.

Read `shell_command.py` first. `processes.py` has commands in the background.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field

from holdfast.core.errors import ToolFailed
from holdfast.tools.command_paths import command_request
from holdfast.tools.contract import (
    ApprovalRequest,
    Person,
    Tool,
    ToolContext,
    ToolResult,
    person_refused,
    refusal,
)
from holdfast.tools.decorator import tool
from holdfast.tools.editor_terminal import EditorTerminals
from holdfast.tools.file_history import FileHistory
from holdfast.tools.output import ResultBudget, readable
from holdfast.tools.sandbox_choice import CommandSandbox
from holdfast.tools.shell_command import RunningCommand, start_command

COMMAND_SECONDS = 120
MAX_SECONDS = 3600
INTERRUPT_GRACE = 0.3
LIVE_EVERY = 0.1
LIVE_CHARACTERS = 4000


def refused(request: ApprovalRequest, person: Person) -> ToolResult:
    """The result for a command that was not allowed."""
    reason = f"it {request.reason}, and " if request.reason else ""
    instead = "Ask them what they would like instead, or go on" if person_refused(person) else "Go on"
    return ToolResult(f"The command was not run: {reason}{refusal(person)}. {instead} without it.", ok=False)


class LiveOutput:
    """Shows output while it arrives, in few and short events: of a large output only the latest part."""

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
        """Show the remaining output, and nothing after that."""
        if self._timer is not None:
            self._timer.cancel()
        self._show()

    def _show(self) -> None:
        self._timer = None
        waiting, self._waiting = self._waiting, ""
        if waiting:
            self._say(readable(waiting.encode("utf-8", "replace")))


def folder_in_workspace(workspace: Path, name: str) -> Path:
    """A folder of the workspace, as the working folder of a command."""
    try:
        folder = (workspace / name).resolve(strict=True)
    except (OSError, ValueError) as cause:
        raise ToolFailed(f"there is no folder {name!r}: {cause}") from cause
    if not folder.is_relative_to(workspace.resolve()):
        raise ToolFailed(f"{name!r} is outside the workspace; use `cd` in the command itself")
    if not folder.is_dir():
        raise ToolFailed(f"{name!r} is not a folder")
    return folder


def terminal_tool(
    environment: Mapping[str, str],
    budget: ResultBudget,
    sandbox: CommandSandbox,
    history: FileHistory | None = None,
    in_editor: EditorTerminals | None = None,
) -> Tool:
    """The tool `run_command`. `environment` comes from `child_environment`.

    With a `history`, what a command does to the files that it names can be taken back. `in_editor` runs what
    an editor offers to run.
    """

    @tool(timeout=None)
    async def run_command(
        command: Annotated[str, Field(min_length=1)],
        context: ToolContext,
        seconds: Annotated[int, Field(ge=1, le=MAX_SECONDS)] = COMMAND_SECONDS,
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
        directory = folder_in_workspace(context.workspace, folder)
        await sandbox.ready()
        request = await context.off_loop(command_request, command, directory, environment, context.own_files)
        if not await context.person.approve(request):
            return refused(request, context.person)
        live = LiveOutput(context.say)
        watched = None
        if history is not None:
            watched = await context.off_loop(history.before_command, context, command, directory, environment)
        with budget.of(context.scope).spool(context.session_id) as spool:
            launch, hint = await sandbox.launch(command, context, directory, environment)
            shown_there = None if in_editor is None else await in_editor.start(context, launch, spool)
            try:
                if shown_there is not None:
                    outcome, ok = await shown_there.outcome(seconds)
                else:
                    running = await start_command(launch, spool, live.take)
                    outcome, ok = await _outcome(running, seconds)
            finally:
                live.close()
                if history is not None and watched is not None:
                    await context.off_loop(history.after_command, watched)
            shown = spool.shown().rstrip("\n")
        more = f"; {hint}" if hint and not ok else ""
        return ToolResult(f"{shown or '(no output)'}\n[{outcome}{more}]", ok=ok)

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
    return f"{ended.summary}{left}", ended.code == 0
