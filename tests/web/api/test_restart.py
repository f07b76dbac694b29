"""`holdfast web` is killed with turns running and messages waiting; what goes on then, unasked."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.sessions.store_fixtures import until
from tests.web.page.gated_model import Gate, GatedModel

MAIN = "from holdfast.cli.main import main; main()"
TOKEN = "a-token-of-this-test"
CONVERSATIONS = 3


@contextmanager
def web(
    home: Path, store_url: str, model: GatedModel, **variables: str
) -> Iterator[tuple[int, httpx2.Client]]:
    """The command in a process of its own: its id, and a client of it."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    environment = {
        **known,
        **{name: str(home) for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")},
        "HOLDFAST_STORE_URL": store_url,
        "HOLDFAST_MODEL_PROVIDER": "openai",
        "HOLDFAST_HOST_TITLES": "false",  # the model's answers are given out turn by turn
        "HOLDFAST_MODEL_NAME": "gated",
        "HOLDFAST_MODEL_BASE_URL": model.url,
        "HOLDFAST_MODEL_API_KEY": "a-key-of-this-test",
        "HOLDFAST_WEB_TOKEN": TOKEN,
        "HOLDFAST_WEB_REQUESTS_PER_S": "100000",
        **variables,
    }
    project = home / "project"
    project.mkdir(exist_ok=True)
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, "web", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
        cwd=project,
    ) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().partition("?")[0]
            headers = {"Authorization": f"Bearer {TOKEN}"}
            with httpx2.Client(base_url=url, headers=headers, timeout=20) as http:
                yield process.pid, http
        finally:
            process.kill()


def begin(http: httpx2.Client, model: GatedModel, gates: list[Gate]) -> list[str]:
    """Conversations with a turn that runs, and a message that waits behind it."""
    sessions = []
    for number, gate in enumerate(gates):
        model.will_answer([gate, "too late"])
        begun = http.post("/api/sessions", json={"message": {"text": f"first {number}"}})
        assert begun.status_code == 201
        sessions.append(begun.json()["id"])
        gate.wait_until_reached()
    for number, session in enumerate(sessions):
        waits = http.post(f"/api/sessions/{session}/send", json={"text": f"second {number}"})
        assert waits.status_code == 202
    return sessions


def said(http: httpx2.Client, session: str) -> list[tuple[str, Any]]:
    """What a person sees there; what a broken answer had brought is left out."""
    items = http.get(f"/api/sessions/{session}/messages").json()["items"]
    shown = [each["message"] for each in items]
    return [(m["role"], m["content"]) for m in shown if "superseded" not in json.dumps(m.get("holdfast"))]


def answered(http: httpx2.Client, session: str, number: int) -> Callable[[], bool]:
    over = "The script is over."
    wanted = [
        ("user", f"first {number}"),
        ("assistant", over),
        ("user", f"second {number}"),
        ("assistant", over),
    ]
    return lambda: said(http, session) == wanted


@pytest.mark.slow
@pytest.mark.clause("I7")
def test_a_server_that_was_killed_runs_by_itself_what_it_had_accepted(store_url: str, tmp_path: Path) -> None:
    gates = [Gate() for _ in range(CONVERSATIONS)]
    with GatedModel() as model:
        with web(tmp_path, store_url, model) as (pid, http):
            sessions = begin(http, model, gates)
            os.kill(pid, signal.SIGKILL)
        with web(tmp_path, store_url, model) as (_, http):
            for number, session in enumerate(sessions):
                until(answered(http, session, number))
                detail = http.get(f"/api/sessions/{session}").json()
                assert (detail["state"], detail["waiting"], detail["unfinished"]) == ("idle", 0, None)


@pytest.mark.slow
@pytest.mark.clause("I7")
def test_another_living_server_takes_over_what_a_killed_one_had_accepted(
    store_url: str, tmp_path: Path
) -> None:
    gates = [Gate() for _ in range(CONVERSATIONS)]
    with ExitStack() as stack:
        model = stack.enter_context(GatedModel())
        pid, http = stack.enter_context(web(tmp_path, store_url, model))
        _, other = stack.enter_context(web(tmp_path, store_url, model))
        sessions = begin(http, model, gates)
        os.kill(pid, signal.SIGKILL)
        for number, session in enumerate(sessions):
            until(answered(other, session, number))


@pytest.mark.slow
@pytest.mark.clause("I7")
def test_an_operator_can_have_a_server_ask(tmp_path: Path) -> None:
    store_url = f"sqlite:///{tmp_path}/holdfast.db"
    ask = {"HOLDFAST_HOST_AFTER_CRASH": "ask"}
    with GatedModel() as model:
        with web(tmp_path, store_url, model, **ask) as (pid, http):
            [session] = begin(http, model, [Gate()])
            os.kill(pid, signal.SIGKILL)
        with web(tmp_path, store_url, model, **ask) as (_, http):

            def unfinished() -> Any:  # noqa: ANN401 - as the server says it
                return http.get(f"/api/sessions/{session}").json()["unfinished"]

            until(lambda: unfinished() is not None)
            assert unfinished()["said"] == "first 0"
            assert len(model.asked) == 1
            # One word of a person is enough for what waits behind the turn as well.
            assert http.post(f"/api/sessions/{session}/resume").status_code == 202
            until(answered(http, session, 0))
