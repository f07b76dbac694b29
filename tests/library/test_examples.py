"""Every example runs, as a developer copies it: a fresh folder, a server that plays a script."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.library.scripted_process import scripted_server

# Each test is several processes.
pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MOST_LINES = 60
SECONDS = 120


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Callable[[list[Any]], dict[str, str]]]:
    """Starts a scripted server; gives the environment in which a program finds it."""
    with ExitStack() as running:
        yield lambda script: running.enter_context(scripted_server(script, tmp_path))


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., str]:
    def run(name: str, environment: dict[str, str], said: str = "") -> str:
        child = subprocess.run(
            command_of(name, tmp_path),
            cwd=tmp_path,
            env=environment,
            input=said,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert child.returncode == 0, child.stderr
        assert child.stderr == ""
        return child.stdout

    return run


def command_of(name: str, folder: Path) -> list[str]:
    """A copy of the example, in a folder outside the checkout."""
    program = folder / name
    program.write_text((EXAMPLES / name).read_text(encoding="utf-8"), encoding="utf-8")
    return [sys.executable, "-W", "error", name]


def test_every_example_is_short_and_has_a_test_of_its_own() -> None:
    tests = Path(__file__).read_text(encoding="utf-8")
    for example in EXAMPLES.glob("*.py"):
        assert len(example.read_text(encoding="utf-8").splitlines()) < MOST_LINES
        assert f'"{example.name}"' in tests


def test_chat_with_a_tool(server: Any, run: Any) -> None:  # noqa: ANN401
    script = [{"tool": "rate", "arguments": {"currency": "USD"}}, "That is 2.76 euros."]
    assert run("chat_with_a_tool.py", server(script)) == "[rate: 0.92]\nThat is 2.76 euros.\n"


def test_resume(server: Any, run: Any) -> None:  # noqa: ANN401
    environment = server(["Nothing yet.", "You asked what you had asked."])
    assert "2 messages are on record" in run("resume.py", environment)
    assert run("resume.py", environment) == "You asked what you had asked.\n4 messages are on record\n"


def test_two_hundred_sessions(server: Any, run: Any) -> None:  # noqa: ANN401
    assert run("two_hundred_sessions.py", server([])) == "200 answers\n2 messages in each session\n"


def test_structured_output(server: Any, run: Any) -> None:  # noqa: ANN401
    wrong, right = {"number": "A-7", "total": 12.5}, {"number": "A-7", "total": 12.5, "currency": "EUR"}
    script = [{"tool": "final_result", "arguments": each} for each in (wrong, right)]
    assert run("structured_output.py", server(script)) == "A-7: 12.50 EUR\n"
    assert run("structured_output.py", server(["no"] * 9)).startswith("No invoice: it is no JSON")


def test_own_memory(server: Any, run: Any) -> None:  # noqa: ANN401
    assert run("own_memory.py", server(["Noted.", "Under the mat."])) == "Under the mat.\n"


def test_own_model(run: Any, tmp_path: Path) -> None:  # noqa: ANN401
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    assert run("own_model.py", environment) == "Polly wants a cracker (4 tokens)\n"


def test_approval_by_policy(server: Any, run: Any) -> None:  # noqa: ANN401
    calls = [
        {"tool": "refund", "arguments": {"order": 7 + each, "amount": 20 * 100**each}} for each in (0, 1)
    ]
    said = run("approval_by_policy.py", server([calls[0], "Paid back.", calls[1], "I may not."]))
    assert said.splitlines() == [
        "refund in shop: 20.00 euros of order 7 are paid back",
        "Paid back.",
        "I may not.",
    ]


def test_chat_bot(server: Any, run: Any) -> None:  # noqa: ANN401
    said = run("chat_bot.py", server(["Hello."] * 3), "kitchen: hi\ncellar: who is there?\nkitchen: bye\n")
    assert Counter(said.splitlines()) == {"kitchen <- Hello.": 2, "cellar <- Hello.": 1}


@contextmanager
def serving(command: list[str], folder: Path, environment: dict[str, str]) -> Iterator[str]:
    service = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        assert service.stderr is not None
        for line in service.stderr:
            if "running on" in line:
                yield line.split("running on ")[1].split()[0]
                break
    finally:
        service.send_signal(signal.SIGINT)
        service.communicate(timeout=SECONDS)
    assert service.returncode in (0, -signal.SIGINT)


def test_fastapi_app(server: Any, tmp_path: Path) -> None:  # noqa: ANN401
    environment = server(["Hello from the service."])
    command_of("fastapi_app.py", tmp_path)
    command = [sys.executable, "-m", "uvicorn", "fastapi_app:app", "--port", "0"]
    with serving(command, tmp_path, environment) as address:
        body = json.dumps({"text": "hi"}).encode()
        asked = urllib.request.Request(f"{address}/chat/monday", body, {"content-type": "application/json"})  # noqa: S310
        with urllib.request.urlopen(asked, timeout=SECONDS) as answered:  # noqa: S310
            assert json.load(answered) == {"answer": "Hello from the service."}
        with urllib.request.urlopen(f"{address}/chat/monday/events", timeout=SECONDS) as stream:  # noqa: S310
            assert json.loads(stream.readline().decode().removeprefix("data: "))["kind"] == "SessionSnapshot"


@pytest.mark.clause("D1")
@pytest.mark.clause("I7")
def test_a_batch_job_that_is_killed_goes_on_and_asks_nothing_twice(
    server: Any,  # noqa: ANN401
    run: Any,  # noqa: ANN401
    tmp_path: Path,
) -> None:
    environment = server([f"summary {number}" for number in range(1, 20)])
    command = command_of("batch_job.py", tmp_path)
    job = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)
    assert job.stdout is not None
    for line in job.stdout:
        if line.startswith("4 of 10"):
            break
    job.kill()
    job.communicate()
    assert not (tmp_path / "results.txt").exists()

    run("batch_job.py", environment)
    summaries = (tmp_path / "results.txt").read_text().split("\n")[:10]
    assert summaries[:4] == ["summary 1", "summary 2", "summary 3", "summary 4"]
    assert len(set(summaries)) == 10
    numbers = [int(each.split()[1]) for each in summaries]
    # The item that was on its way when the job died may have been asked once more.
    assert numbers == sorted(numbers)
    assert numbers[-1] <= 11
