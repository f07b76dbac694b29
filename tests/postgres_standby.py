"""A streaming standby of a server of our own: made while it runs, promoted when a test says so."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.postgres_server import (
    ATTEMPTS,
    DEADLINE,
    PASSWORD,
    SETTINGS,
    PostgresServer,
    belonging_to,
    free_port,
)


class Standby:
    """Follows its primary until it is promoted."""

    def __init__(self, primary: PostgresServer) -> None:
        [self._programs] = (primary.folder / ".pg0" / "installation").glob("*/bin")
        self._primary = primary
        self._process = belonging_to(primary.folder)
        # The programs find their libraries where the primary found its own.
        with (primary.folder / "data" / "postmaster.pid").open() as file:
            set_there = Path(f"/proc/{file.readline().strip()}/environ").read_bytes().decode().split("\0")
        self._process["env"] |= {
            name: value for name, _, value in (each.partition("=") for each in set_there) if name
        }
        # Beside the primary's data, so it ends with it.
        self._data = primary.folder / "standby"
        self.port = 0

    @property
    def url(self) -> str:
        return f"postgresql://postgres:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Copy the primary in use, and follow it."""
        source = f"--dbname={self._primary.url}"
        self._run(
            "pg_basebackup", source, "--write-recovery-conf", "--checkpoint=fast", f"--pgdata={self._data}"
        )
        for left in reversed(range(ATTEMPTS)):
            self.port = free_port()
            try:
                return self._follow()
            except subprocess.CalledProcessError:
                # Somebody else may have taken the port in between.
                if not left:
                    raise
        return None

    def _follow(self) -> None:
        settings = " ".join(f"-c {setting}" for setting in (*SETTINGS, f"port={self.port}"))
        log = f"--log={self._primary.folder}/standby.log"
        self._run("pg_ctl", "start", "--wait", f"--pgdata={self._data}", log, f"--options={settings}")

    def promote(self) -> None:
        self._run("pg_ctl", "promote", "--wait", f"--pgdata={self._data}")

    def stop(self) -> None:
        self._run("pg_ctl", "stop", "--mode=immediate", f"--pgdata={self._data}")

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._programs / program, *arguments],
            stdin=subprocess.DEVNULL,
            # The server inherits the output, so a pipe would never end.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=DEADLINE,
            check=True,
            **self._process,
        )


@contextmanager
def standby_of(primary: PostgresServer) -> Iterator[Standby]:
    """A standby that follows while the block runs, or until it is promoted."""
    standby = Standby(primary)
    standby.start()
    try:
        yield standby
    finally:
        standby.stop()
