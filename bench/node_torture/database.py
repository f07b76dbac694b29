"""The PostgreSQL of the torture, and the PgBouncer through which some nodes reach it. Both can be restarted.

What the server writes down is in `log.py`.
"""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

from tests.postgres_server import PASSWORD, PostgresServer, own_server

BOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
START_WITHIN = 60.0
FAST, IMMEDIATE = signal.SIGINT, signal.SIGQUIT
"""How PostgreSQL is told to stop: without waiting for its clients, or as after a crash."""


class Database:
    """PostgreSQL, for nodes in other namespaces."""

    def __init__(self, server: PostgresServer, address: str) -> None:
        self._server = server
        self._address = address
        with (server.folder / "data" / "pg_hba.conf").open("a") as rules:
            rules.write("host all all 10.0.0.0/8 password\n")
        self.execute("select pg_reload_conf()")

    @property
    def url(self) -> str:
        """The store's address, for nodes."""
        return f"postgresql://postgres:{PASSWORD}@{self._address}:{self._server.port}/postgres"

    @property
    def local_url(self) -> str:
        """The same for this process."""
        return self._server.url

    def execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """One statement in plain SQL."""
        with psycopg.connect(self._server.url, autocommit=True) as connection:
            found = connection.execute(statement.encode(), values or None)
            return found.fetchall() if found.description else []

    def _pid(self) -> int:
        return int((self._server.folder / "data" / "postmaster.pid").read_text().split()[0])

    async def restart(self, how: signal.Signals) -> None:
        pid = self._pid()
        os.kill(pid, how)
        await _until(lambda: not _runs(pid))
        await asyncio.to_thread(self._server.start)


@asynccontextmanager
async def a_bouncer(database: str, address: str) -> AsyncIterator["Bouncer"]:
    """PgBouncer before this database, at this address."""
    with tempfile.TemporaryDirectory(prefix="holdfast-pgbouncer-") as name:
        bouncer = Bouncer(Path(name), database, address)
        try:
            await bouncer.start()
            yield bouncer
        finally:
            await bouncer.end()


@asynccontextmanager
async def a_database(address: str) -> AsyncIterator[Database]:
    """A server that is reached at this address too."""
    with own_server("listen_addresses=*") as server:
        yield Database(server, address)


class Bouncer:
    """PgBouncer in session mode."""

    def __init__(self, folder: Path, database: str, address: str) -> None:
        parts = psycopg.conninfo.conninfo_to_dict(database)
        with socket.socket() as free:
            free.bind((address, 0))
            self._place = address, int(free.getsockname()[1])
        folder.chmod(0o755)  # it does not run as root
        self._config = folder / "pgbouncer.ini"
        (folder / "users").write_text(f'"{parts["user"]}" "{parts["password"]}"\n')
        self._config.write_text(
            f"[databases]\npooled = host={parts['host']} port={parts['port']} dbname={parts['dbname']} "
            f"user={parts['user']} password={parts['password']}\n"
            f"[pgbouncer]\nlisten_addr = {address}\nlisten_port = {self._place[1]}\nunix_socket_dir =\n"
            f"auth_type = any\nauth_file = {folder}/users\npool_mode = session\n"
            "default_pool_size = 80\nmax_client_conn = 400\n"
        )
        self.url = f"postgresql://postgres@{address}:{self._place[1]}/pooled"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *(str(BOUNCER), str(self._config)),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user="nobody" if os.geteuid() == 0 else None,  # it refuses to run as root
        )
        await _until(self._listens)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(self._place) == 0

    async def end(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    async def restart(self) -> None:
        await self.end()
        await self.start()


def _runs(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(START_WITHIN):
        while not condition():  # noqa: ASYNC110 - another process makes it true
            await asyncio.sleep(0.05)
