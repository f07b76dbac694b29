"""`CommandSandbox`: finds the sandbox for the settings once, and launches commands in it.

`auto` uses bubblewrap where it works, and otherwise no sandbox. When the settings name a sandbox that does
not work, every command is refused. Read `sandbox.py` first.
"""

import asyncio
import os
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from holdfast.core.errors import ToolFailed
from holdfast.core.settings import ToolSettings
from holdfast.sessions.contract import OWNER
from holdfast.tools.contract import OffLoop, ToolContext
from holdfast.tools.sandbox import (
    CommandRequest,
    Launch,
    NoSandbox,
    ResourceLimits,
    Sandbox,
    SandboxOptions,
    find_program,
)
from holdfast.tools.sandbox_bubblewrap import Bubblewrap, known_flags
from holdfast.tools.sandbox_container import Container, Engine, engine_problem

INSTALL = "install it (Debian and Ubuntu: `apt install bubblewrap`, Fedora: `dnf install bubblewrap`)"
OPTIONAL = ("--disable-userns", "--seccomp")
"""Options that an old kernel or bubblewrap may lack. The probe tries without the first, then without both."""
Kind = Literal["auto", "bubblewrap", "docker", "podman", "off"]
OWN_NOTHING = SandboxOptions()
ConversationOf = Callable[[str], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class SandboxState:
    """The sandbox in use, for a person to read. `kind` is a value of the setting, but never `auto`."""

    kind: str
    text: str
    refusing: bool = False
    """Whether commands are refused, because the sandbox that the settings name does not work."""


class SandboxMissing(Exception):
    """A sandbox does not work on this machine; the message says why."""


def options_of(settings: ToolSettings, own: SandboxOptions) -> SandboxOptions:
    """The options from the settings, with Holdfast's own files from `own`."""
    return replace(
        own,
        network=settings.sandbox_network,
        limits=ResourceLimits(settings.sandbox_memory_mb, settings.sandbox_processes, settings.sandbox_cpu_s),
        readable=_paths(settings.sandbox_readable),
        writable=_paths(settings.sandbox_writable),
    )


def find_sandbox(kind: Kind, image: str, options: SandboxOptions) -> tuple[Sandbox, SandboxState]:
    """Find and try the sandbox; raises `SandboxMissing`. Blocks for a few times `probe_seconds` at most."""
    network = "network on" if options.network else "no network"
    if kind == "off":
        return NoSandbox(), SandboxState("off", "off: commands run with your own rights, as the settings say")
    if kind in ("docker", "podman"):
        container = _container(kind, image, options)
        writes = f"in containers of {image}, commands can write only {_writable(options)} and /tmp"
        return container, SandboxState(kind, f"{kind}: {writes}; {network}")
    try:
        found = _bubblewrap(options)
    except SandboxMissing as cause:
        if kind == "bubblewrap":
            raise
        return NoSandbox(), SandboxState("off", f"none: {cause}. Commands run with your own rights")
    writes = f"commands can write only {_writable(options)}, /tmp and a home folder of their own"
    return found, SandboxState("bubblewrap", f"bubblewrap: {writes}; {network}")


def _writable(options: SandboxOptions) -> str:
    return ", ".join((options.workspace, *map(str, options.writable)))


def probe_sandbox(settings: ToolSettings, own: SandboxOptions) -> SandboxState:
    """Try the sandbox for these settings now. Blocks."""
    try:
        sandbox, state = find_sandbox(settings.sandbox, settings.sandbox_image, options_of(settings, own))
    except SandboxMissing as cause:
        return _refusing(settings.sandbox, cause)
    sandbox.close()
    return state


class CommandSandbox:
    """The sandbox for the commands of one agent. Used on the event loop; blocking work runs `off_loop`."""

    def __init__(
        self,
        settings: ToolSettings,
        off_loop: OffLoop,
        own: SandboxOptions = OWN_NOTHING,
        conversation_of: ConversationOf | None = None,
    ) -> None:
        self._kind: Kind = settings.sandbox
        self._image = settings.sandbox_image
        self._options = options_of(settings, own)
        self._off_loop = off_loop
        self._conversation_of = conversation_of
        self._finding: asyncio.Task[tuple[Sandbox, SandboxState]] | None = None

    async def state(self) -> SandboxState:
        """The sandbox in use. The first call tries it."""
        try:
            return (await self._found())[1]
        except SandboxMissing as cause:
            return _refusing(self._kind, cause)

    async def ready(self) -> None:
        """Raise `ToolFailed` when commands are refused."""
        try:
            await self._found()
        except SandboxMissing as cause:
            raise ToolFailed(_refusing(self._kind, cause).text) from cause

    async def launch(
        self, command: str, context: ToolContext, folder: Path, environment: Mapping[str, str]
    ) -> tuple[Launch, str]:
        """How to start a command, and a note about its sandbox for the case that it fails."""
        if "\0" in command:
            raise ToolFailed("a command can't contain a NUL character")
        await self.ready()
        sandbox, _ = await self._found()
        if context.scope != OWNER and isinstance(sandbox, NoSandbox):
            raise ToolFailed("commands are run here only in a sandbox, and there is none; nothing was run")
        session = context.session_id
        request = CommandRequest(
            command=command,
            workspace=context.workspace,
            folder=folder,
            environment=environment,
            conversation=await self._conversation_of(session) if self._conversation_of else session,
        )
        pending = asyncio.ensure_future(self._off_loop(_launch, sandbox, request))
        try:
            return await asyncio.shield(pending), sandbox.hint
        except asyncio.CancelledError:
            pending.add_done_callback(_close_abandoned)
            raise

    def forget(self, conversation: str) -> None:
        """Remove the private folders of a deleted conversation, on any thread. May block."""
        finding = self._finding
        if finding is not None and finding.done() and not finding.cancelled() and finding.exception() is None:
            finding.result()[0].forget(conversation)

    async def close(self) -> None:
        """Remove the private folders of commands. It may be called again."""
        if self._finding is None:
            return
        try:
            sandbox, _ = await self._finding
        except SandboxMissing:
            return
        await self._off_loop(sandbox.close)

    async def _found(self) -> tuple[Sandbox, SandboxState]:
        if self._finding is None:
            finding = self._off_loop(find_sandbox, self._kind, self._image, self._options)
            self._finding = asyncio.ensure_future(finding)
        # When one caller is interrupted, the search continues for the others.
        return await asyncio.shield(self._finding)


def _refusing(kind: Kind, cause: SandboxMissing) -> SandboxState:
    problem = (
        f"commands are refused, and nothing was run: the settings ask for the sandbox {kind!r}, but {cause}. "
        "Or set HOLDFAST_TOOLS_SANDBOX to auto, which runs commands without one where there is none."
    )
    return SandboxState(kind, problem, refusing=True)


def _launch(sandbox: Sandbox, request: CommandRequest) -> Launch:
    return sandbox.launch(replace(request, workspace=Path(os.path.realpath(request.workspace))))


def _close_abandoned(pending: "asyncio.Future[Launch]") -> None:
    """Close the files of a launch that nobody waits for."""
    if not pending.cancelled() and pending.exception() is None:
        pending.result().close()


def _bubblewrap(options: SandboxOptions) -> Bubblewrap:
    program = find_program("bwrap", options.program_folders)
    if program is None:
        raise SandboxMissing(f"bubblewrap is not installed; {INSTALL}")
    problem = ""
    try:
        flags = known_flags(program, options.probe_seconds)
        for left_out in range(len(OPTIONAL) + 1):
            sandbox = Bubblewrap(program, flags - frozenset(OPTIONAL[:left_out]), options)
            problem = _probe_error(sandbox, options.probe_seconds)
            if not problem:
                return sandbox
    except (OSError, subprocess.SubprocessError) as cause:
        problem = str(cause)
    raise SandboxMissing(
        f"bubblewrap does not work here ({problem}); docs/sandbox.md says what this system must allow"
    )


def _probe_error(sandbox: Bubblewrap, seconds: float) -> str:
    """Run `true` in the sandbox; returns the problem, or an empty text."""
    try:
        workspace = sandbox.probe_folder()
        launch = sandbox.launch(
            CommandRequest("true", workspace, workspace, {"PATH": "/usr/bin:/bin"}, "probe")
        )
        try:
            done = subprocess.run(  # noqa: S603 - whole paths
                launch.argv,
                env=dict(launch.environment),
                cwd=launch.folder,
                pass_fds=launch.files,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=seconds,
                check=False,
                start_new_session=True,
            )
        finally:
            launch.close()
    except BaseException:
        sandbox.close()
        raise
    if done.returncode == 0:
        return ""
    sandbox.close()
    return " ".join(done.stderr.decode("utf-8", "replace").split())[-300:] or f"exit code {done.returncode}"


def _container(engine: Engine, image: str, options: SandboxOptions) -> Container:
    program = find_program(engine, options.program_folders)
    if program is None:
        raise SandboxMissing(f"{engine} is not installed")
    try:
        problem = engine_problem(program, image, options.probe_seconds)
    except (OSError, subprocess.SubprocessError) as cause:
        problem = str(cause)
    if problem:
        raise SandboxMissing(f"{engine} does not work here: {problem}")
    return Container(engine, program, image, options)


def _paths(names: tuple[str, ...]) -> tuple[Path, ...]:
    return tuple(Path(os.path.realpath(Path(each).expanduser())) for each in names)
