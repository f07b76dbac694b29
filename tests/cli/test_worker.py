"""`holdfast worker` on PostgreSQL: runs what waits, says when it is ready, ends on a signal."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.sessions import SessionDB
from tests.cli.test_commands import holdfast
from tests.host.transcripts import said
from tests.sessions.databases import PostgresPlace
from tests.sessions.store_fixtures import until
from tests.web.api.test_command import MAIN, folders


@pytest.fixture
def url(postgres: str) -> Iterator[str]:
    place = PostgresPlace(postgres)
    yield place.url
    place.drop()


@pytest.mark.slow
@pytest.mark.clause("I7", "X4")
def test_a_worker_is_ready_runs_what_waits_and_ends_on_a_signal(url: str, tmp_path: Path) -> None:
    script, work = tmp_path / "script.json", tmp_path / "work"
    script.write_text(json.dumps(["answered"]), encoding="utf-8")
    work.mkdir()
    with SessionDB.open(url) as db, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        db.create_session("s", source="test")
        db.inbox.put("s", {"role": "user", "content": "hello"})
        manager.bind(str(tmp_path / "notify"))
        environment = {
            **folders(tmp_path),
            "HOLDFAST_STORE_URL": url,
            "HOLDFAST_MODEL_PROVIDER": "scripted",
            "HOLDFAST_MODEL_NAME": str(script),
            "HOLDFAST_MEMORY_PROVIDERS": "",
            "NOTIFY_SOCKET": str(tmp_path / "notify"),
        }
        with subprocess.Popen(
            [sys.executable, "-c", MAIN, "worker"],
            stdout=subprocess.PIPE,
            env=environment,
            cwd=work,
            text=True,
        ) as worker:
            try:
                assert worker.stdout is not None
                assert worker.stdout.readline() == "ready\n"
                assert manager.recv(100) == b"READY=1"
                until(lambda: said(db, "s") == [("user", "hello"), ("assistant", "answered")])
                until(lambda: db.session_holder("s") is None)
                worker.send_signal(signal.SIGTERM)
                assert worker.wait(60) == 128 + signal.SIGTERM
                assert manager.recv(100) == b"STOPPING=1"
            finally:
                worker.kill()


def test_a_worker_is_refused_on_sqlite_with_what_works_there(tmp_path: Path) -> None:
    ran = holdfast("worker", store=f"sqlite:///{tmp_path / 'holdfast.db'}")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "holdfast web" in ran.stderr
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - nothing was made
