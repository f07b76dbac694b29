"""`holdfast web --workers 2` on PostgreSQL: one address, several processes, any of which may die."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx2
import psutil
import pytest

from holdfast.sessions import SessionDB
from tests.sessions.databases import PostgresPlace
from tests.sessions.store_fixtures import until
from tests.web.api.test_command import command
from tests.web.page.gated_model import Gate, GatedModel

TOKEN = "a-token-of-this-test"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}

STARTS_A_SERVER = """
import subprocess
subprocess.Popen(["sleep", "600"], start_new_session=True)
"""


@pytest.fixture
def url(postgres: str) -> Iterator[str]:
    place = PostgresPlace(postgres)
    yield place.url
    place.drop()


def workers_of(server: "subprocess.Popen[str]") -> list[int]:
    """The workers that serve now, by their ids."""
    return [each.pid for each in psutil.Process(server.pid).children() if is_worker(each)]


def is_worker(process: psutil.Process) -> bool:
    try:
        return "--socket" in process.cmdline()
    except psutil.NoSuchProcess:  # it ends; a zombie counts as such too
        return False


def started_by_workers(server: "subprocess.Popen[str]") -> list[psutil.Process]:
    """What each worker has started; waits until each has."""
    found: list[psutil.Process] = []
    for worker in map(psutil.Process, workers_of(server)):
        until(lambda: bool(worker.children()))  # noqa: B023 - called at once
        found += worker.children()
    return found


def models_of(server: "subprocess.Popen[str]", address: str) -> list[str]:
    """The model that each worker uses: each is asked while the others are paused."""
    found = []
    workers = [psutil.Process(pid) for pid in workers_of(server)]
    for one in workers:
        others = [each for each in workers if each != one]
        try:
            for each in others:
                each.suspend()
            status = httpx2.get(f"{address}api/status", headers=HEADERS, timeout=60)
            found.append(status.json()["model"]["name"])
        finally:
            for each in others:
                each.resume()
    return found


def end(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        process.kill()


def answers(http: httpx2.Client, session: str) -> list[str]:
    items = http.get(f"/api/sessions/{session}/messages").json()["items"]
    return [each["message"]["content"] for each in items if each["message"]["role"] == "assistant"]


@pytest.mark.slow
@pytest.mark.clause("N1", "N2", "I7", "X4")
def test_a_killed_workers_turn_is_answered_by_another_and_all_end_with_the_server(
    url: str, tmp_path: Path
) -> None:
    with GatedModel() as model:
        settings = {
            "HOLDFAST_STORE_URL": url,
            "HOLDFAST_MODEL_PROVIDER": "openai",
            "HOLDFAST_MODEL_NAME": "gated",
            "HOLDFAST_MODEL_BASE_URL": model.url,
            "HOLDFAST_MODEL_API_KEY": "a-key-of-this-test",
            "HOLDFAST_WEB_TOKEN": TOKEN,
        }
        with command(tmp_path, "--workers", "2", **settings) as server, SessionDB.open(url) as db:
            assert server.stdout is not None
            address = server.stdout.readline().partition("?")[0]
            until(lambda: len(workers_of(server)) == 2)
            with httpx2.Client(base_url=address, headers=HEADERS, timeout=60) as http:
                never = Gate()
                model.will_answer([never, "too late"], ["answered after all"])
                begun = http.post("/api/sessions", json={"message": {"text": "go"}})
                session = begun.json()["id"]
                never.wait_until_reached()
                holder = db.session_holder(session) or ""
                (running,) = [
                    pid for pid in workers_of(server) if f"{pid}" in holder.replace(":", " ").split()
                ]
                psutil.Process(running).send_signal(signal.SIGKILL)
            # Another connection: the one before may have been the killed worker's.
            with httpx2.Client(base_url=address, headers=HEADERS, timeout=60) as http:
                until(lambda: answers(http, session) == ["answered after all"])
                until(lambda: len(workers_of(server)) == 2)
            known = workers_of(server)
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 128 + signal.SIGTERM
            assert not any(psutil.pid_exists(pid) for pid in known)


@pytest.mark.slow
@pytest.mark.clause("X4")
def test_workers_end_when_the_process_that_started_them_is_killed(url: str, tmp_path: Path) -> None:
    with command(tmp_path, "--workers", "2", HOLDFAST_STORE_URL=url) as server:
        assert server.stdout is not None
        assert server.stdout.readline()
        until(lambda: len(workers_of(server)) == 2)
        known = [psutil.Process(pid) for pid in workers_of(server)]
        server.kill()
        _, alive = psutil.wait_procs(known, timeout=60)
        assert alive == []


@pytest.mark.slow
@pytest.mark.clause("X4")
def test_a_worker_that_never_ends_holds_up_the_exit_for_a_bounded_time(url: str, tmp_path: Path) -> None:
    with command(tmp_path, "--workers", "2", HOLDFAST_STORE_URL=url, HOLDFAST_EXIT_WATCHDOG_S="1") as server:
        assert server.stdout is not None
        assert server.stdout.readline()
        until(lambda: len(workers_of(server)) == 2)
        known = [psutil.Process(pid) for pid in workers_of(server)]
        known[0].suspend()
        server.send_signal(signal.SIGTERM)
        try:
            assert server.wait(30) == 128 + signal.SIGTERM
        finally:
            with suppress(psutil.NoSuchProcess):  # it may have ended with the server
                known[0].resume()
        _, alive = psutil.wait_procs(known, timeout=60)
        assert alive == []


@pytest.mark.slow
def test_a_worker_is_started_again_though_a_process_that_it_started_lives_on(
    url: str, tmp_path: Path
) -> None:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "starts_a_server.py").write_text(STARTS_A_SERVER, encoding="utf-8")
    settings = {"HOLDFAST_STORE_URL": url, "HOLDFAST_MEMORY_PLUGINS": str(plugins)}
    with ExitStack() as left_behind, command(tmp_path, "--workers", "2", **settings) as server:
        assert server.stdout is not None
        assert server.stdout.readline()
        until(lambda: len(workers_of(server)) == 2)
        for each in started_by_workers(server):
            left_behind.callback(end, each)
        killed = workers_of(server)[0]
        psutil.Process(killed).kill()
        until(lambda: len(workers_of(server)) == 2 and killed not in workers_of(server))
        for each in started_by_workers(server):
            left_behind.callback(end, each)
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 128 + signal.SIGTERM


@pytest.mark.slow
def test_a_worker_that_cannot_be_started_again_is_tried_later_and_the_others_serve(
    url: str, tmp_path: Path
) -> None:
    with command(tmp_path, "--workers", "2", HOLDFAST_STORE_URL=url, HOLDFAST_WEB_TOKEN=TOKEN) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        address = server.stdout.readline().partition("?")[0]
        until(lambda: len(workers_of(server)) == 2)
        parent, killed = psutil.Process(server.pid), workers_of(server)[0]
        usual = parent.rlimit(psutil.RLIMIT_NOFILE)
        parent.rlimit(psutil.RLIMIT_NOFILE, (3, usual[1]))
        psutil.Process(killed).kill()
        while "can't be started" not in (said := server.stderr.readline()):
            assert said
        with httpx2.Client(base_url=address, headers=HEADERS, timeout=60) as http:
            assert http.get("/readyz").status_code == 200
        parent.rlimit(psutil.RLIMIT_NOFILE, usual)
        until(lambda: len(workers_of(server)) == 2)


@pytest.mark.slow
def test_a_server_whose_link_cannot_be_printed_ends_with_its_workers(url: str, tmp_path: Path) -> None:
    with command(tmp_path, "--workers", "2", HOLDFAST_STORE_URL=url) as server:
        assert server.stdout is not None
        server.stdout.close()
        until(lambda: len(workers_of(server)) == 2)
        known = workers_of(server)
        assert server.wait(60) != 0
        assert not any(psutil.pid_exists(pid) for pid in known)


@pytest.mark.slow
def test_a_changed_model_is_used_by_every_worker(url: str, tmp_path: Path) -> None:
    with GatedModel() as model:
        own = tmp_path / "own.toml"
        own.write_text(f'[model]\nprovider = "openai"\nname = "first"\nbase_url = "{model.url}"\n')
        own.chmod(0o600)
        settings = {
            "HOLDFAST_STORE_URL": url,
            "HOLDFAST_SETTINGS": str(own),
            "HOLDFAST_MODEL_API_KEY": "a-key-of-this-test",
            "HOLDFAST_WEB_TOKEN": TOKEN,
        }
        with command(tmp_path, "--workers", "2", **settings) as server:
            assert server.stdout is not None
            address = server.stdout.readline().partition("?")[0]
            until(lambda: len(workers_of(server)) == 2)
            until(lambda: models_of(server, address) == ["first", "first"])
            changes = {"changes": {"model.name": "second"}}
            assert httpx2.patch(f"{address}api/settings", json=changes, headers=HEADERS).status_code == 200
            until(lambda: models_of(server, address) == ["second", "second"])
            chosen = httpx2.put(f"{address}api/models/current", json={"name": "third"}, headers=HEADERS)
            assert chosen.status_code == 200
            until(lambda: models_of(server, address) == ["third", "third"])
            killed = workers_of(server)[0]
            psutil.Process(killed).kill()
            until(lambda: len(workers_of(server)) == 2 and killed not in workers_of(server))
            until(lambda: models_of(server, address) == ["third", "third"])


@pytest.mark.slow
def test_workers_are_refused_without_a_store_that_they_can_share(tmp_path: Path) -> None:
    with command(tmp_path, "--workers", "2") as server:
        _, said = server.communicate(timeout=60)
        assert server.returncode == 2
        assert "needs a store on PostgreSQL" in said


@pytest.mark.slow
def test_a_server_whose_workers_cannot_start_ends_with_their_reason(tmp_path: Path) -> None:
    nowhere = "postgresql://127.0.0.1:1/nothing"
    with command(tmp_path, "--workers", "2", HOLDFAST_STORE_URL=nowhere) as server:
        _, said = server.communicate(timeout=90)
        assert server.returncode == 75  # try again later
        assert "127.0.0.1" in said
        assert "Traceback" not in said
