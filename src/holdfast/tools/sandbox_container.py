"""Runs commands in containers of Docker or Podman, from an image that the settings name.

Each command has its own container, which is removed when it ends. Of this machine only the workspace is
visible in it. Read `sandbox.py` first. Both engines accept the options that are used here.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from holdfast.core.errors import ToolFailed
from holdfast.core.ids import new_id
from holdfast.tools.environment import UNATTENDED
from holdfast.tools.sandbox import CommandRequest, Launch, SandboxOptions
from holdfast.tools.sandbox_folders import PrivateFolders, inside

Engine = Literal["docker", "podman"]
HOME = "/home/sandbox"
PASSED_VARIABLES = (
    *(
        "LANG",
        "LC_ALL",
        "TZ",
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
    ),
    *UNATTENDED,
)
# An image may lack bash. Both shells read the command lines that need no approval in the same way.
INNER = """{limits}
if [ -x /bin/bash ]; then exec /bin/bash --norc -c "$1"; fi
exec /bin/sh -c "$1\""""


class Container:
    """`program` is the engine's command."""

    def __init__(self, engine: Engine, program: str, image: str, options: SandboxOptions) -> None:
        self.name = engine
        self._program = program
        self._image = image
        self._options = options
        self._private = PrivateFolders()

    @property
    def hint(self) -> str:
        network = "" if self._options.network else "; there is no network"
        return (
            f"it ran in a container of {self._image}: only the workspace and /tmp can be written, and "
            f"nothing else of this machine is there{network}"
        )

    def launch(self, request: CommandRequest) -> Launch:
        name = f"holdfast-{new_id().lower()}"
        argv = (
            *(self._program, "run", "--rm", "--init", "--pull", "never", "--name", name),
            *self._rights(),
            *self._mounts(request),
            *self._variables(request),
            *("--workdir", os.fspath(request.folder), "--entrypoint", "/bin/sh", self._image),
            *("-c", INNER.format(limits=self._options.limits.script()), "sh", request.command),
        )
        kill = (self._program, "rm", "--force", name)
        return Launch(argv, request.environment, "/", wrapped=True, kill=kill)

    def forget(self, conversation: str) -> None:
        self._private.forget(conversation)

    def close(self) -> None:
        self._private.close()

    def _rights(self) -> Iterator[str]:
        limits = self._options.limits
        yield from ("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only")
        yield from ("--ipc", "private", "--hostname", "sandbox")
        yield from ("--network", "bridge" if self._options.network else "none")
        if self.name == "podman" and os.geteuid() != 0:
            yield from ("--userns", "keep-id")
        yield from ("--user", f"{os.geteuid()}:{os.getegid()}")
        if limits.memory_mb:
            yield from ("--memory", f"{limits.memory_mb}m", "--memory-swap", f"{limits.memory_mb}m")
        if limits.processes:
            yield from ("--pids-limit", str(limits.processes))

    def _mounts(self, request: CommandRequest) -> Iterator[str]:
        temporary, home = self._private.of(request.conversation)
        yield from _bind(temporary, "/tmp")  # noqa: S108 - its own
        yield from _bind(home, HOME)
        for path in self._options.readable:
            yield from _bind(path, path, read_only=True)
        for path in (request.workspace, *self._options.writable):
            yield from _bind(path, path)
        shown = (request.workspace, *self._options.readable, *self._options.writable)
        for path in self._options.hidden:
            if inside(path, shown) and path.is_dir():
                yield from ("--mount", f"type=tmpfs,destination={_plain(path)},tmpfs-mode=0500")
            elif inside(path, shown) and path.exists():
                yield from _bind(Path("/dev/null"), path, read_only=True)

    def _variables(self, request: CommandRequest) -> Iterator[str]:
        yield from ("--env", f"HOME={HOME}")
        for name in PASSED_VARIABLES:
            if name in request.environment:
                yield from ("--env", f"{name}={request.environment[name]}")


def _bind(source: Path, target: Path | str, *, read_only: bool = False) -> tuple[str, str]:
    more = ",readonly" if read_only else ""
    return "--mount", f"type=bind,source={_plain(source)},destination={_plain(target)}{more}"


def _plain(path: Path | str) -> str:
    """The path, if it can be part of a mount option, in which a comma ends a value."""
    text = os.fspath(path)
    if any(char in text for char in ',"\n\r'):
        raise ToolFailed(
            f"{text!r} can't be mounted in a container: its name has a comma, a quote or a line end. "
            "Nothing was run. Use another workspace, or set HOLDFAST_TOOLS_SANDBOX to bubblewrap."
        )
    return text


def engine_problem(program: str, image: str, seconds: float) -> str:
    """Why containers don't work; empty when they do."""
    for words, problem in (
        (("version",), "the engine does not answer"),
        (
            ("image", "inspect", image),
            f"there is no image {image}; fetch it with `{Path(program).name} pull {image}`",
        ),
    ):
        done = subprocess.run(  # noqa: S603 - a whole path
            [program, *words], capture_output=True, timeout=seconds, check=False, text=True
        )
        if done.returncode != 0:
            detail = " ".join(done.stderr.split())[:300]
            return f"{problem} ({detail})" if detail else problem
    return ""
