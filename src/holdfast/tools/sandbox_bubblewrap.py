"""Runs commands in Linux namespaces, made by bubblewrap, without root and without a daemon.

The workspace can be written, the system and toolchains can be read, and nothing else is visible. The command
sees no other processes, has no capabilities, and can't gain rights. Read `sandbox.py` first;
`docs/sandbox.md` says which attacks it stops and which it doesn't.
"""

import contextlib
import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from holdfast.core.errors import ToolFailed
from holdfast.tools.sandbox import CommandRequest, Launch, SandboxOptions, shell_words
from holdfast.tools.sandbox_folders import (
    OWNER_ONLY,
    SECRETS,
    STARTUP_FILES,
    PrivateFolders,
    home_of,
    inside,
    private_in_etc,
    system_folders,
    toolchains,
)
from holdfast.tools.sandbox_seccomp import seccomp_filter

FLAG = re.compile(r"^\s+(--[a-z0-9-]+)", re.MULTILINE)
NOBODY = "65534"
SHARED_MEMORY = 1 << 30
TOO_WIDE = tuple(map(Path, ("/", "/proc", "/sys", "/dev", "/usr", "/etc", "/run", "/var")))
# Variables that lead to sockets outside of the sandbox, or to files that are not visible in it.
OUTSIDE = frozenset(
    {
        *("SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"),
        *("DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS", "XDG_RUNTIME_DIR", "DOCKER_HOST"),
        *("TMUX", "TMUX_TMPDIR", "STY", "SESSION_MANAGER", "TMPDIR", "TMP", "TEMP", "OLDPWD"),
    }
)
# When memory runs out, the kernel ends these processes before the program that started them.
OUTER = 'echo 1000 >/proc/self/oom_score_adj 2>/dev/null\nexec "$0" "$@"'
# The script reports on descriptor 0 that processes were left. Processes that finish soon, such as the `tee`
# of `make > >(tee log)`, get a moment; when this script ends, the sandbox and everything in it ends. The
# command runs in a subshell, so that messages of this shell about signals are not part of its output.
INNER = """exec 3>&0 4>&2 </dev/null 2>/dev/null
{limits}
trap : HUP INT QUIT TERM
( exec "$@" 2>&4 3>&- 4>&- )
code=$?
n=0
while set -- /proc/[0-9]*; [ $# -gt 2 ] && [ $n -lt 10 ]; do n=$((n+1)); sleep 0.02; done
[ $# -gt 2 ] && echo left >&3
exit $code"""
HINT = (
    "it ran in a sandbox: only the workspace, /tmp and a home folder of this conversation can be written, "
    "and most other files are not there"
)


class Bubblewrap:
    """`program` is the full path of `bwrap`, and `flags` are the options that it knows."""

    name = "bubblewrap"

    def __init__(self, program: str, flags: frozenset[str], options: SandboxOptions) -> None:
        self._program = program
        self._flags = flags
        self._options = options
        self._private = PrivateFolders()
        self._etc = private_in_etc()
        self._filter = seccomp_filter() if "--seccomp" in flags else b""

    @property
    def hint(self) -> str:
        return HINT if self._options.network else f"{HINT}; there is no network"

    def launch(self, request: CommandRequest) -> Launch:
        if request.workspace in TOO_WIDE:
            raise ToolFailed(
                f"the workspace is {request.workspace}, and no sandbox can hold a command that may write all "
                "of it. Nothing was run. Set HOLDFAST_TOOLS_WORKSPACE to a folder of its own."
            )
        if inside(request.workspace, self._options.hidden):
            raise ToolFailed(
                f"the workspace {request.workspace} is one of Holdfast's own folders, which commands don't "
                "see. Nothing was run. Set HOLDFAST_TOOLS_WORKSPACE to another folder."
            )
        view = _View(request, self._options, self._flags, self._private, self._etc)
        try:
            view.build()
            if self._filter:
                view.add("--seccomp", str(view.file(self._filter)))
            # The list is long, and in the command line other users could read it.
            listed = view.file(b"".join(os.fsencode(each) + b"\0" for each in view.arguments))
        except BaseException:
            view.close()
            raise
        script = INNER.format(limits=self._options.limits.script())
        return Launch(
            argv=(
                *("/bin/sh", "-c", OUTER, self._program, "--args", str(listed), "--"),
                *("/bin/sh", "-c", script, "sh", *shell_words(), request.command),
            ),
            environment=_environment(request),
            folder="/",
            files=tuple(view.files),
            wrapped=True,
        )

    def probe_folder(self) -> Path:
        """A workspace for the probe."""
        return self._private.of("probe")[1]

    def forget(self, conversation: str) -> None:
        self._private.forget(conversation)

    def close(self) -> None:
        self._private.close()


class _View:
    """What one command sees, as arguments of bubblewrap in the order of its mounts."""

    def __init__(
        self,
        request: CommandRequest,
        options: SandboxOptions,
        flags: frozenset[str],
        private: PrivateFolders,
        etc: Sequence[Path],
    ) -> None:
        self._request = request
        self._options = options
        self._flags = flags
        self._private = private
        self._etc = etc
        self._home = home_of(request.environment)
        self._shown: list[Path] = []
        self.arguments: list[str] = []
        self.files: list[int] = []

    def add(self, *words: str | Path) -> None:
        self.arguments += [os.fspath(each) for each in words]

    def file(self, content: bytes) -> int:
        """A descriptor to read the content from."""
        file = os.memfd_create("holdfast")
        self.files.append(file)
        with os.fdopen(file, "wb", closefd=False) as writing:
            writing.write(content)
        os.lseek(file, 0, os.SEEK_SET)
        return file

    def close(self) -> None:
        for each in self.files:
            os.close(each)

    def build(self) -> None:
        self._namespaces()
        self._system()
        self._folders()
        hidden, fixed = self._guarded()
        # These come first: each one would cover the mounts inside its folder.
        for path in self._between((*hidden, *fixed)):
            self.add("--bind", path, path)
        self._git()
        for path in fixed:
            self.add("--ro-bind", path, path)
        for path in hidden:
            self._hide(path)
        self.add("--remount-ro", "/", "--chdir", self._request.folder)

    def _namespaces(self) -> None:
        self.add("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
        self.add("--die-with-parent", "--cap-drop", "ALL", "--hostname", "sandbox")
        if not self._options.network:
            self.add("--unshare-net")
        if "--disable-userns" in self._flags:
            self.add("--disable-userns")
        if os.geteuid() == 0:
            # Without capabilities, a process that seems to be root only tries things that fail.
            self.add("--uid", NOBODY, "--gid", NOBODY)

    def _system(self) -> None:
        for folder, target in system_folders():
            self.add(*(("--symlink", target, folder) if target else ("--ro-bind", folder, folder)))
        for path in self._etc:
            self._hide(path)
        names = Path(os.path.realpath("/etc/resolv.conf"))
        if not inside(names, [Path("/etc")]) and names.is_file():
            self.add("--ro-bind-try", names, names)
        # Root owns these files, and their owner needs no capability to write them.
        self.add("--proc", "/proc", "--remount-ro", "/proc")
        self.add("--dev", "/dev")
        if "--size" in self._flags:
            self.add("--size", str(SHARED_MEMORY))
        self.add("--tmpfs", "/dev/shm", "--remount-ro", "/dev", "--dir", "/run")  # noqa: S108 - its own
        self.add("--symlink", "../tmp", "/var/tmp")  # noqa: S108 - its own

    def _folders(self) -> None:
        request, options = self._request, self._options
        temporary, home = self._private.of(request.conversation)
        self.add("--bind", temporary, "/tmp")  # noqa: S108 - its own
        if self._home is not None and not inside(self._home, [request.workspace]):
            self.add("--bind", home, self._home)
        for path in (*toolchains(request.environment, self._home), *options.readable):
            self._show("--ro-bind-try", path)
        self._show("--bind", request.workspace)
        for path in options.writable:
            if not inside(path, [request.workspace]):
                self._show("--bind-try", path)

    def _show(self, how: str, path: Path) -> None:
        self.add(how, path, path)
        self._shown.append(path)

    def _git(self) -> None:
        """Protect git's hooks and settings, which make git run programs later, outside of the sandbox."""
        folder = self._request.workspace / ".git"
        open_again = {*self._options.writable}
        if folder in open_again or "--bind-fd" not in self._flags:
            return
        # Mounted by a descriptor, because a process of an earlier command may put a link there at any moment.
        top = self._open(None, folder, os.O_DIRECTORY)
        if top is None:
            return
        hooks = folder / "hooks"
        if hooks not in open_again:
            with contextlib.suppress(OSError):
                os.mkdir(hooks.name, dir_fd=top)
        self.add("--bind-fd", str(top), folder)
        for name in ("hooks", "config"):
            if folder / name not in open_again and (found := self._open(top, Path(name))) is not None:
                self.add("--ro-bind-fd", str(found), folder / name)

    def _open(self, above: int | None, path: Path, more: int = 0) -> int | None:
        try:
            file = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC | more, dir_fd=above)
        except OSError:
            return None
        self.files.append(file)
        return file

    def _guarded(self) -> tuple[list[Path], list[Path]]:
        """The visible paths to hide, and those to make read-only."""
        hidden = [*self._options.hidden, self._private.base]
        fixed = [*self._options.fixed]
        if self._home is not None and inside(self._home, self._shown):
            hidden += [self._home / each for each in SECRETS]
            fixed += [self._home / each for each in STARTUP_FILES]
        for folder in self._options.folders:
            if inside(folder, self._shown):
                # A command could create a missing folder, and Holdfast would use it at the next start.
                folder.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
        return self._seen(hidden), self._seen(fixed)

    def _seen(self, paths: Iterable[Path]) -> list[Path]:
        return sorted({each for each in paths if inside(each, self._shown) and each.exists()})

    def _between(self, paths: Iterable[Path]) -> list[Path]:
        """The visible folders above these paths. They are mounted, because a mount can't be renamed."""
        found = {
            folder
            for path in paths
            for folder in path.parents
            if inside(folder, self._shown) and folder not in self._shown
        }
        return sorted(found)

    def _hide(self, path: Path) -> None:
        if path.is_dir():
            self.add("--tmpfs", path, "--remount-ro", path)
        elif path.exists():
            self.add("--ro-bind", "/dev/null", path)


def _environment(request: CommandRequest) -> dict[str, str]:
    kept = {name: value for name, value in request.environment.items() if name not in OUTSIDE}
    home = home_of(request.environment)
    # PWD is the resolved folder, because links to it are not visible in the sandbox.
    return {**kept, "PWD": os.fspath(request.folder), **({"HOME": os.fspath(home)} if home else {})}


def known_flags(program: str, seconds: float) -> frozenset[str]:
    """The options that the installed bubblewrap knows.

    Raises OSError or SubprocessError if it does not run.
    """
    shown = subprocess.run(  # noqa: S603 - a whole path
        [program, "--help"], capture_output=True, timeout=seconds, check=False, text=True, env={}
    )
    return frozenset(FLAG.findall(shown.stdout + shown.stderr))
