"""PgBouncer in front of PostgreSQL: in session mode as good as the server, in transaction mode refused."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from holdfast.core.errors import StoreUnopenable
from holdfast.sessions import SessionDB
from tests.sessions.store_fixtures import until

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="PgBouncer is not installed (Debian: pgbouncer)")


@contextmanager
def pgbouncer(server: str, mode: str, *settings: str) -> Iterator[str]:
    """PgBouncer in front of a server; the address of the store through it."""
    parts = urlsplit(server)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    (folder / "users").write_text(f'"{parts.username}" "{parts.password}"\n')
    (folder / "config").write_text(
        "[databases]\n"
        f"pooled = host={parts.hostname} port={parts.port} dbname={parts.path[1:]} "
        f"user={parts.username} password={parts.password}\n"
        "[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {port}\nunix_socket_dir =\nauth_type = any\nauth_file = {folder}/users\n"
        f"pool_mode = {mode}\n" + "".join(f"{each}\n" for each in settings)
    )
    with subprocess.Popen(
        [str(PROGRAM), str(folder / "config")],
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        user="nobody" if os.geteuid() == 0 else None,  # it refuses to run as root
    ) as process:
        try:
            until(lambda: _listens(port))
            yield f"postgresql://{parts.username}@127.0.0.1:{port}/pooled"
        finally:
            process.kill()
            shutil.rmtree(folder)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_pooler_in_transaction_mode_is_refused_with_a_reason_and_nothing_is_made(postgres: str) -> None:
    with (
        pgbouncer(postgres, "transaction") as url,
        pytest.raises(StoreUnopenable, match="pool_mode=session"),
    ):
        SessionDB.open(url)


@pytest.mark.parametrize("warm", [2, 3])
def test_a_busy_pooler_that_gives_the_next_connection_another_process_is_refused_too(
    postgres: str, warm: int
) -> None:
    with pgbouncer(postgres, "transaction", "server_round_robin = 1") as url:
        with ExitStack() as stack:
            for _ in range(warm):  # so many processes of the server are at hand, and take turns
                connection = stack.enter_context(psycopg.connect(url, prepare_threshold=None))
                connection.execute("select 1")
        with pytest.raises(StoreUnopenable, match="pool_mode=session"):
            SessionDB.open(url)


@pytest.mark.clause("N1")
def test_through_a_pooler_in_session_mode_everything_works_and_is_heard(postgres: str) -> None:
    heard: list[str] = []
    with pgbouncer(postgres, "session") as url, SessionDB.open(url) as here, SessionDB.open(url) as there:
        there.notifications.subscribe(heard.append)
        here.notifications.subscribe(lambda _: None)
        until(lambda: there.notifications.is_listening and here.notifications.is_listening)
        del heard[:]
        session = here.create_session(f"pooled-{os.getpid()}", source="test")
        until(lambda: "" in heard)
        assert there.get_session(session.id) is not None
        here.delete_session(session.id)
