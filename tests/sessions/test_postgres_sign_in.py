"""How connections are protected: TLS with a checked certificate, and a password that changes meanwhile."""

import os
import pwd
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from holdfast.core.errors import StoreUnopenable, StoreUnreachable
from holdfast.sessions import SessionDB
from tests.postgres_server import PASSWORD, PostgresServer, own_server
from tests.sessions.store_fixtures import contents, user

pytestmark = pytest.mark.slow  # starts a server of its own

HASTY = 2
IS_ENCRYPTED = "select ssl from pg_stat_ssl where pid = pg_backend_pid()"


def certificate(folder: Path, name: str) -> Path:
    """A certificate that signs itself, for a server with this name; its key lies beside it."""
    made = folder / f"{name}.crt"
    request = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        f"/CN={name}",
    ]
    names = [
        "-addext",
        f"subjectAltName=DNS:{name}",
        "-keyout",
        str(made.with_suffix(".key")),
        "-out",
        str(made),
    ]
    subprocess.run([*request, *names], check=True, capture_output=True)
    return made


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with own_server() as server:
        yield server


@pytest.fixture
def authority(server: PostgresServer, tmp_path: Path) -> Path:
    """The server speaks TLS from now on; the certificate that vouches for it."""
    made = certificate(server.folder, "localhost")
    key = made.with_suffix(".key")
    if os.geteuid() == 0:
        os.chown(key, pwd.getpwnam("nobody").pw_uid, -1)
    key.chmod(0o600)
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute(f"alter system set ssl_cert_file = '{made}'")
        admin.execute(f"alter system set ssl_key_file = '{key}'")
        admin.execute("alter system set ssl = on")
        admin.execute("select pg_reload_conf()")
    trusted = tmp_path / "authority.crt"
    trusted.write_bytes(made.read_bytes())
    return trusted


def test_a_certificate_is_checked_for_its_issuer_and_its_name(
    server: PostgresServer, authority: Path, tmp_path: Path
) -> None:
    by_name = server.url.replace("127.0.0.1", "localhost") + "?sslmode=verify-full&sslrootcert="
    with SessionDB.open(f"{by_name}{authority}") as db:
        assert db._engine.read(lambda tx: tx.connection.execute(IS_ENCRYPTED).fetchone()) == (True,)  # noqa: SLF001
        db.create_session("s", source="test")
    stranger = certificate(tmp_path, "stranger")
    by_number = f"{server.url}?sslmode=verify-full&sslrootcert={authority}"
    for refused in (f"{by_name}{stranger}", by_number):
        with pytest.raises(StoreUnreachable, match="certificate"):
            SessionDB.open(refused, patience=HASTY)


@pytest.fixture
def role(server: PostgresServer) -> Iterator[psycopg.Connection]:
    """A role whose password the test changes."""
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute("create role rotated login superuser password 'first'")
        yield admin
        admin.execute("drop owned by rotated cascade")
        admin.execute("drop role rotated")


def end_connections(admin: psycopg.Connection) -> None:
    admin.execute("select pg_terminate_backend(pid, 10000) from pg_stat_activity where usename = 'rotated'")


@pytest.mark.parametrize("way", ["passfile", "service"])
def test_a_password_in_a_file_is_read_anew_for_each_connection(
    way: str,
    server: PostgresServer,
    role: psycopg.Connection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "secret"

    def keep(password: str) -> None:
        service = f"[mine]\nhost=127.0.0.1\nport={server.port}\nuser=rotated\ndbname=postgres\n"
        service += f"password={password}\n"
        line = f"127.0.0.1:{server.port}:postgres:rotated:{password}\n"
        file.write_text(service if way == "service" else line)
        file.chmod(0o600)

    keep("first")
    url = f"postgresql://rotated@127.0.0.1:{server.port}/postgres?passfile={file}"
    if way == "service":
        url = "postgresql:///?service=mine"
        monkeypatch.setenv("PGSERVICEFILE", str(file))
    with SessionDB.open(url, patience=HASTY) as db:
        db.create_session(way, source="test")
        role.execute("alter role rotated password 'second'")
        db.sessions.append_message(way, user("on the old connection"))
        end_connections(role)
        with pytest.raises(StoreUnreachable, match="password authentication failed"):
            db.sessions.append_message(way, user("lost"))
        keep("second")
        db.sessions.append_message(way, user("on a new one"))
        assert contents(db.get_messages(way)) == ["on the old connection", "on a new one"]


def test_a_password_in_the_address_is_the_one_of_the_start(
    server: PostgresServer, role: psycopg.Connection
) -> None:
    url = f"postgresql://rotated:first@127.0.0.1:{server.port}/postgres"
    with SessionDB.open(url, patience=HASTY) as db:
        role.execute("alter role rotated password 'second'")
        end_connections(role)
        with pytest.raises(StoreUnreachable) as refused:
            db.create_session("lost", source="test")
        assert "first" not in str(refused.value)
        assert PASSWORD not in str(refused.value)
    with pytest.raises(StoreUnopenable, match="refused this user or password"):
        SessionDB.open(url, patience=HASTY)
