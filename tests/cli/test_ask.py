"""`ask`, and a chat without a terminal: for pipes and scripts."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence

import pytest

from holdfast.testing.script_file import read_script
from holdfast.testing.scripted_server import ScriptedServer
from tests.cli.real_terminal import COMMAND, PATIENCE, Home, run

# Each test is several processes.
pytestmark = pytest.mark.slow


def test_the_answer_alone_goes_to_standard_output(home: Home) -> None:
    home.script([["Let me look.", {"tool": "list_folder", "arguments": {"path": "."}}], "Forty-two."])
    ran = run(home, "ask", "the question")
    assert (ran.returncode, ran.stdout) == (0, "Forty-two.\n")
    assert "list_folder" in ran.stderr


@pytest.fixture
def plain_home(home: Home) -> Home:
    """Without a memory, whose model alone takes half of a command's time."""
    home.settings["HOLDFAST_MEMORY_PROVIDERS"] = ""
    return home


def test_standard_input_is_added_to_the_question(plain_home: Home) -> None:
    run(plain_home, "ask", "summarise", given="a long\r\ntext\n")
    assert plain_home.said() == ["summarise\n\na long\ntext"]


def test_a_pipe_that_stays_open_and_empty_is_not_waited_for(plain_home: Home) -> None:
    plain_home.script(["Fine."])
    asked = subprocess.Popen(
        [sys.executable, *COMMAND, "ask", "all well?"],
        env=plain_home.environment(),
        cwd=plain_home.project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with asked:
        # Standard input stays open: it is not closed before the command has ended.
        assert asked.wait(PATIENCE) == 0
        assert asked.stdout is not None
        assert asked.stderr is not None
        assert asked.stdout.read() == "Fine.\n"
        assert "open and empty" in asked.stderr.read()
    assert plain_home.said() == ["all well?"]


def test_what_comes_late_is_waited_for_when_asked_to(home: Home) -> None:
    home.script(["Fine."])
    asking = subprocess.Popen(
        [sys.executable, *COMMAND, "ask", "what is this?", "--stdin"],
        env=home.environment(),
        cwd=home.project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with pytest.raises(subprocess.TimeoutExpired):
        asking.wait(4)  # longer than an empty pipe is looked at without the wish
    answer, _ = asking.communicate("late words\n", PATIENCE)
    assert (asking.returncode, answer) == (0, "Fine.\n")
    assert home.said() == ["what is this?\n\nlate words"]


def test_events_come_as_lines_of_json(plain_home: Home) -> None:
    plain_home.script(["Hello."])
    ran = run(plain_home, "ask", "--json", "hi")
    kinds = [json.loads(line)["kind"] for line in ran.stdout.splitlines()]
    assert kinds[0] == "MessageAccepted"
    assert kinds[-1] == "TurnCompleted"


def test_what_needs_approval_is_refused_where_nobody_can_be_asked(plain_home: Home) -> None:
    made = plain_home.folder / "made"
    plain_home.script([{"tool": "run_command", "arguments": {"command": f"touch {made}"}}, "It was refused."])
    ran = run(plain_home, "ask", "make it")
    assert (ran.returncode, ran.stdout) == (0, "It was refused.\n")
    assert "nobody is there" in ran.stderr
    assert not made.exists()


@pytest.mark.clause("S1")
def test_of_own_files_the_true_reason_is_said_to_the_person_and_to_the_model(plain_home: Home) -> None:
    plain_home.settings["HOLDFAST_TOOLS_APPROVAL"] = "never-ask"
    token = plain_home.folder / "data/holdfast/web-token"
    plain_home.script([{"tool": "run_command", "arguments": {"command": f"cat {token}"}}, "It was refused."])
    ran = run(plain_home, "ask", "--json", "show it")
    (told,) = [each for each in map(json.loads, ran.stdout.splitlines()) if each["kind"] == "ToolFinished"]
    assert "it names Holdfast's own files, and nobody is there to allow it" in told["output"]
    assert "person" not in told["output"]
    plain_home.script([{"tool": "run_command", "arguments": {"command": f"cat {token}"}}, "It was refused."])
    ran = run(plain_home, "ask", "show it")
    assert "HOLDFAST_TOOLS_ALLOW" not in ran.stderr
    assert "no rule covers this (names Holdfast's own files)" in ran.stderr


def test_a_conversation_goes_on_with_continue(plain_home: Home) -> None:
    run(plain_home, "ask", "one")
    run(plain_home, "ask", "--continue", "two")
    listed = json.loads(run(plain_home, "sessions", "--json").stdout)
    assert [each["messages"] for each in listed] == [4]


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        ({"error": 401, "message": "bad key", "code": "invalid_api_key"}, 5),
        ({"error": 404, "message": "no such model", "code": "model_not_found"}, 5),
        ({"error": 500, "message": "down"}, 75),
    ],
)
def test_the_exit_code_says_what_kind_of_failure_it_was(
    home: Home, refusal: dict[str, object], code: int
) -> None:
    async def asked() -> subprocess.CompletedProcess[str]:
        async with ScriptedServer(read_script(json.dumps([refusal] * 10))) as server:
            home.settings |= {
                "HOLDFAST_MODEL_PROVIDER": "openai",
                "HOLDFAST_MODEL_NAME": "scripted",
                "HOLDFAST_MODEL_BASE_URL": server.base_url,
                "HOLDFAST_MODEL_API_KEY": "sk-test",
                "HOLDFAST_MODEL_ATTEMPTS": "1",
            }
            return await asyncio.to_thread(run, home, "ask", "hello")

    ran = asyncio.run(asked())
    assert (ran.returncode, ran.stdout) == (code, "")
    assert "Traceback" not in ran.stderr
    assert "The message is kept." in ran.stderr


@pytest.mark.parametrize(
    ("settings", "arguments", "code", "said"),
    [
        ({"HOLDFAST_MODEL_PROVIDER": "nonsense"}, ["ask", "x"], 2, "HOLDFAST_MODEL_PROVIDER"),
        ({"HOLDFAST_NONSENSE": "1"}, ["chat"], 2, "HOLDFAST_NONSENSE"),
        ({"HOLDFAST_STORE_URL": "sqlit:///x"}, ["ask", "x"], 2, "sqlite:///PATH"),
        ({"HOLDFAST_MODEL_NAME": "/no/such/script"}, ["ask", "x"], 5, "/no/such/script"),
        ({}, ["ask"], 2, "ask needs a question"),
        ({}, ["ask", "--session", "unknown", "x"], 2, "no conversation 'unknown'"),
    ],
)
def test_what_is_wrong_is_said_in_words(
    home: Home, settings: dict[str, str], arguments: Sequence[str], code: int, said: str
) -> None:
    home.settings |= settings
    ran = run(home, *arguments)
    assert (ran.returncode, ran.stdout) == (code, "")
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_bytes_that_are_no_text_are_marked_and_asked_all_the_same(plain_home: Home) -> None:
    ran = subprocess.run(
        [sys.executable, *COMMAND, "ask"],
        env=plain_home.environment(),
        input=b"caf\xe9",
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (ran.returncode, plain_home.said()) == (0, ["caf\N{REPLACEMENT CHARACTER}"])


def test_without_a_terminal_each_line_is_answered(plain_home: Home) -> None:
    plain_home.script(["First.", "Second."])
    ran = run(plain_home, "chat", given="one\r\n\r\ntwo\r\n")
    assert (ran.returncode, ran.stdout) == (0, "First.\nSecond.\n")
    assert plain_home.said() == ["one", "two"]
