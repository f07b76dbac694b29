"""`Sandbox`: the interface that turns a command line into a `Launch`, which says how to start it.

`NoSandbox` starts the shell directly. `sandbox_bubblewrap.py` and `sandbox_container.py` put a sandbox around
it, and `sandbox_choice.py` finds the one that the settings ask for and that works on this machine.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

SHELLS = ("/bin/bash", "/usr/bin/bash", "/bin/sh")
MEGABYTE_IN_KIB = 1024
PROGRAM_FOLDERS = (
    *("/usr/bin", "/bin", "/usr/local/bin"),
    *("/opt/homebrew/bin", "/snap/bin", "/run/current-system/sw/bin"),
)
"""The folders with the programs of the system."""


@dataclass(frozen=True, slots=True)
class CommandRequest:
    """A command line to run. The folders are resolved."""

    command: str
    workspace: Path
    folder: Path
    """The working folder: the workspace, or a folder in it."""
    environment: Mapping[str, str]
    conversation: str
    """Commands of one conversation share `/tmp` and a home folder in their sandboxes."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a command."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    folder: str
    """The working folder of `argv`; the sandbox then changes to the command's own folder."""
    files: tuple[int, ...] = ()
    """Descriptors that `argv` names. The caller passes them to the process and closes them."""
    wrapped: bool = False
    """Whether the started process only watches the command. A signal to it would end the command at once, and
    it exits with 128 + n when signal n ended the command."""
    kill: tuple[str, ...] = ()
    """The command that ends processes which are not children of `argv`."""

    def close(self) -> None:
        for each in self.files:
            os.close(each)


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """The resources that one command may use; 0 means no limit."""

    memory_mb: int = 0
    processes: int = 0
    cpu_seconds: int = 0

    def script(self) -> str:
        """Shell lines that set the limits. A lower limit that is already set stays."""
        lines = ["ulimit -c 0"]
        if self.memory_mb:
            lines.append(f"ulimit -d {self.memory_mb * MEGABYTE_IN_KIB}")
        if self.cpu_seconds:
            lines.append(f"ulimit -t {self.cpu_seconds}")
        if self.processes:
            # The first flag is that of bash, the other that of dash and busybox.
            lines.append(f"ulimit -u {self.processes} || ulimit -p {self.processes}")
        return "\n".join(f"{{ {line}; }} 2>/dev/null" for line in lines)


@dataclass(frozen=True, slots=True)
class SandboxOptions:
    """The settings of a sandbox, and Holdfast's own files.

    `hidden` ones are not visible, `fixed` are read-only.
    """

    network: bool = True
    limits: ResourceLimits = ResourceLimits()
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = ()
    """The folders among `hidden`, whether they exist or not."""
    fixed: tuple[Path, ...] = ()
    program_folders: tuple[str, ...] = PROGRAM_FOLDERS
    probe_seconds: float = 10.0
    workspace: str = "the workspace"
    """The name of the folder that commands can write, for a person to read."""


def find_program(name: str, folders: Iterable[str]) -> str | None:
    """The full path of a program in one of these folders.

    PATH is not used: commands may write its folders.
    """
    return next((path for each in folders if os.access(path := f"{each}/{name}", os.X_OK)), None)


class Sandbox(Protocol):
    """One way to run commands. `launch` and `close` may block on the disk."""

    @property
    def name(self) -> str:
        """The name of the sandbox in the settings."""
        ...

    @property
    def hint(self) -> str:
        """A note about the sandbox for the result of a failed command; may be empty."""
        ...

    def launch(self, request: CommandRequest) -> Launch:
        """How to start the command; raises `ToolFailed` when it can't run in this sandbox."""
        ...

    def forget(self, conversation: str) -> None:
        """Remove what is kept for a deleted conversation. May block."""
        ...

    def close(self) -> None:
        """Remove the files of the sandbox. It may be called again."""
        ...


class NoSandbox:
    """Runs the shell directly, with the rights of the program."""

    name = "off"
    hint = ""

    def launch(self, request: CommandRequest) -> Launch:
        return Launch((*shell_words(), request.command), request.environment, os.fspath(request.folder))

    def forget(self, conversation: str) -> None:
        """There is nothing to remove."""

    def close(self) -> None:
        """There is nothing to remove."""


def shell_words() -> tuple[str, ...]:
    """The shell by its full path, so that no folder in PATH can replace it, and its flags.

    Without `--norc` a bash that is started over ssh reads the person's startup file first.
    """
    shell = next((each for each in SHELLS if os.access(each, os.X_OK)), SHELLS[-1])
    return (shell, "--norc", "-c") if shell.endswith("bash") else (shell, "-c")
