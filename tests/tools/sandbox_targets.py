"""What an attacker in a sandbox would like to reach, set up on the real machine: files, sockets, processes.

Everything worth having carries `SECRET`, so an attack that prints it has succeeded, and so has one that
changes what is outside. `attempt` runs one attack and says which it was.
"""

import contextlib
import ctypes
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.process import DaemonPool
from holdfast.tools.environment import child_environment
from holdfast.tools.output import ResultBudget
from holdfast.tools.sandbox import SandboxOptions
from holdfast.tools.terminal import terminal_tool
from tests.tools.call_fixtures import Calls, finish

SECRET = "5ecret-of-the-machine"
OUT = "GOT-OUT"
PYTHON = os.path.realpath(sys.executable)
KEY_TYPE, KEY_NAME, USER_KEYRING = b"user", f"holdfast-{os.getpid()}".encode(), -4
ADD_KEY, KEYCTL, REVOKE = 248, 250, 3


@dataclass
class Ground:
    """One machine to break out into."""

    base: Path
    workspace: Path
    home: Path
    outside: Path
    own: Path
    victim: "subprocess.Popen[bytes]"
    port: int
    abstract: str
    shared: int
    tag: str
    trouble: list[str] = field(default_factory=list)

    def names(self) -> dict[str, str]:
        """What a command may name."""
        return {
            "SECRET_FILE": str(self.outside / "secret"),
            "OUTSIDE": str(self.outside),
            "OWN": str(self.own),
            "TEMPORARY_FILE": str(temporary_file(self.base)),
            "MEMORY_FILE": f"/dev/shm/{self.base.name}",
            "VICTIM": str(self.victim.pid),
            "PORT": str(self.port),
            "SOCKET": str(self.outside / "socket"),
            "ABSTRACT": self.abstract,
            "SHM": str(self.shared),
            "TAG": self.tag,
            "PY": PYTHON,
            "OUT": OUT,
            "KEY_NAME": KEY_NAME.decode(),
        }

    def harmed(self) -> str:
        """What was changed outside; empty when nothing was."""
        if self.victim.poll() is not None:
            return "a process outside was ended"
        expected = {"secret", "socket", "bashrc"}
        found = {each.name for each in self.outside.iterdir()} - expected
        if found:
            return f"files were made outside: {sorted(found)}"
        if (self.outside / "secret").read_text() != SECRET:
            return "a file outside was changed"
        if (self.home / ".bashrc").exists() and OUT in (self.home / ".bashrc").read_text():
            return "the home folder was changed"
        settings = self.own / "settings.toml"
        if (settings.read_text() if settings.exists() else "") != SECRET:
            return "Holdfast's own files were changed"
        if not self.workspace.is_dir():
            return "the workspace is gone"
        return self._git_harmed()

    def _git_harmed(self) -> str:
        git = self.workspace / ".git"
        if git.is_dir() and not git.is_symlink():
            for each in (*git.glob("hooks/*"), git / "config"):
                if each.is_file() and OUT in each.read_text(errors="replace"):
                    return "git would run a program"
        return ""


def temporary_file(base: Path) -> Path:
    """A file where programs put their temporary ones."""
    return Path(tempfile.gettempdir()) / f"{base.name}.txt"


@contextlib.contextmanager
def ground(*, workspace: str = "work") -> Iterator[Ground]:
    """Set everything up; `workspace` is its name, in the home folder."""
    with contextlib.ExitStack() as stack:
        base = Path(os.path.realpath(stack.enter_context(tempfile.TemporaryDirectory(prefix="ground-"))))
        home, outside = base / "home", base / "outside"
        place = (home / workspace).resolve()
        for each in (home / ".ssh", outside, place):
            each.mkdir(parents=True, exist_ok=True)
        (home / ".ssh" / "id_rsa").write_text(SECRET)
        (home / ".bashrc").write_text("# mine\n")
        (outside / "secret").write_text(SECRET)
        own = place / ".config" / "holdfast"
        own.mkdir(parents=True)
        (own / "settings.toml").write_text(SECRET)
        subprocess.run(
            ["git", "init", "-q", place], check=True, env={"PATH": os.environ["PATH"], "HOME": "/"}
        )
        environment = {"OPENAI_API_KEY": SECRET, "PATH": "/usr/bin:/bin"}
        victim = subprocess.Popen(["sleep", "1000"], env=environment, cwd=outside)
        stack.callback(victim.wait)
        stack.callback(victim.kill)
        abstract = f"holdfast-{base.name}"
        port = stack.enter_context(_listening(outside / "socket", abstract))
        shared = stack.enter_context(_shared_memory())
        stack.enter_context(_key())
        made = Ground(
            base, place, home, outside, own, victim, port, abstract, shared, f"1000.{os.getpid()}{port}"
        )
        for name in (Path("/dev/shm") / base.name, temporary_file(base)):
            name.write_text(SECRET)
            stack.callback(name.unlink)
        yield made


def run_in(place: Ground, command: str, kind: str, seconds: int = 20, **settings: object) -> str:
    """The result of a command, as a model would read it."""
    pool = DaemonPool("attack", workers=2, backlog=8)
    calls = Calls(place.workspace, pool)
    own = SandboxOptions(hidden=(place.own,), folders=(place.own,))
    settings.setdefault("readable", [str(Path(PYTHON).parent.parent)])
    sandbox = calls.sandbox(kind, own, **settings)
    hook = place.base / "hook.sh"
    hook.write_text(f"echo {OUT}\n")
    variables = {
        **place.names(),
        "PATH": f"{place.workspace}/bin:{os.environ['PATH']}",
        "HOME": str(place.home),
        "OPENAI_API_KEY": SECRET,
        "SSH_AUTH_SOCK": str(place.outside / "socket"),
        "DBUS_SESSION_BUS_ADDRESS": f"unix:path={place.outside}/socket",
        "DISPLAY": ":77",
        "DOCKER_HOST": f"unix://{place.outside}/socket",
        "BASH_ENV": str(hook),
        "ENV": str(hook),
    }
    environment = child_environment(variables)
    # Its name holds one of the words of secrets, its value is a path.
    environment["SECRET_FILE"] = variables["SECRET_FILE"]
    environment["KEY_NAME"] = variables["KEY_NAME"]
    tool = terminal_tool(environment, ResultBudget(place.base / "kept", 20_000), sandbox)

    async def main() -> str:
        try:
            return (await calls.call(tool, command=command, seconds=seconds)).text
        finally:
            await sandbox.close()

    try:
        return finish(main())
    finally:
        pool.close(20.0)


@contextlib.contextmanager
def _listening(path: Path, abstract: str) -> Iterator[int]:
    """Sockets that tell whoever connects the secret: by a file, by an abstract name, by a port."""
    with contextlib.ExitStack() as stack:
        sockets = []
        for family, address in (
            (socket.AF_UNIX, str(path)),
            (socket.AF_UNIX, "\0" + abstract),
            (socket.AF_INET, ("127.0.0.1", 0)),
        ):
            each = stack.enter_context(socket.socket(family))
            each.bind(address)
            each.listen()
            sockets.append(each)
        datagrams = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        port = sockets[-1].getsockname()[1]
        datagrams.bind(("127.0.0.1", port))

        def serve(listening: socket.socket) -> None:
            with contextlib.suppress(OSError):
                while True:
                    connected, _ = listening.accept()
                    with connected, contextlib.suppress(OSError):
                        connected.sendall(SECRET.encode())

        def answer() -> None:
            with contextlib.suppress(OSError):
                while True:
                    _, sender = datagrams.recvfrom(100)
                    if sender is None:  # closed
                        return
                    datagrams.sendto(SECRET.encode(), sender)

        threads = [threading.Thread(target=serve, args=(each,), daemon=True) for each in sockets]
        threads.append(threading.Thread(target=answer, daemon=True))
        for thread in threads:
            thread.start()
        try:
            yield port
        finally:
            for each in (*sockets, datagrams):
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()


@contextlib.contextmanager
def _shared_memory() -> Iterator[int]:
    """A segment of System V that holds the secret."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    libc.shmdt.argtypes = [ctypes.c_void_p]
    key = int.from_bytes(os.urandom(3), "big") + 1
    segment = libc.shmget(key, 4096, 0o1666)
    if segment < 0:
        raise OSError(ctypes.get_errno(), "no shared memory")
    address = libc.shmat(segment, None, 0)
    ctypes.memmove(address, SECRET.encode(), len(SECRET))
    try:
        yield key
    finally:
        libc.shmdt(address)
        libc.shmctl(segment, 0, None)


@contextlib.contextmanager
def _key() -> Iterator[None]:
    """A key in the keyring of this user, where the machine has one."""
    libc = ctypes.CDLL(None)
    content = SECRET.encode()
    serial = libc.syscall(ADD_KEY, KEY_TYPE, KEY_NAME, content, len(content), USER_KEYRING)
    try:
        yield
    finally:
        if serial > 0:
            libc.syscall(KEYCTL, REVOKE, serial)
