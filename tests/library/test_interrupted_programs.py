"""Ctrl-C in a program: the turn is stopped, what it had produced is on record, and the program ends."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from holdfast import SessionDB
from holdfast.core.clock import SystemClock
from tests.hanging_lookup import ADDRESS, hanging_lookup
from tests.library.scripted_process import scripted_server

TOOL = '''
def look(at: str) -> str:
    """Look at something."""
    print("looking", flush=True)
    return "a boat"
'''
ASYNC = f"""
import asyncio
from holdfast import Agent
{TOOL}
async def main():
    async with Agent("openai:x", store="sqlite:///chats.db", session="s", tools=[look]) as agent:
        await agent.run("What is there?")

asyncio.run(main())
"""
SYNC = f"""
from holdfast import Agent
{TOOL}
agent = Agent("openai:x", store="sqlite:///chats.db", session="s", tools=[look])
agent.run_sync("What is there?")
"""
PATIENCE = 90


@pytest.mark.clause("I6")
@pytest.mark.clause("X4")
@pytest.mark.parametrize("program", [ASYNC, SYNC], ids=["async", "sync"])
def test_ctrl_c_stops_the_turn_and_keeps_its_record(program: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(program)
    with scripted_server(
        [{"tool": "look", "arguments": {"at": "it"}}, [600, "never"]], tmp_path
    ) as environment:
        child = subprocess.Popen(
            [sys.executable, "program.py"],
            cwd=tmp_path,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "looking\n"
        child.send_signal(signal.SIGINT)
        _, complaints = child.communicate(timeout=60)
    assert child.returncode == -signal.SIGINT
    assert complaints.rstrip().endswith("KeyboardInterrupt")
    with SessionDB(tmp_path / "chats.db") as db:
        kept = db.get_messages("s")
        assert db.turns.running("s") is None
    assert kept[0]["content"] == "What is there?"
    assert kept[1]["tool_calls"][0]["function"]["name"] == "look"
    assert kept[-1]["role"] == "assistant"


ASKING = """
import asyncio
from holdfast import Agent, open_model

async def main():
    async with Agent({model}, store="sqlite:///chats.db", session="s") as agent:
        await agent.run("What is there?")

asyncio.run(main())
"""
WITHOUT_LIST = "await open_model('{}:x', context_window=100_000)"
"""Nothing is asked of the server before the first message."""
MODELS = {
    "list": "'openai:x'",
    "openai": WITHOUT_LIST.format("openai"),
    "anthropic": WITHOUT_LIST.format("anthropic"),
}


@pytest.mark.slow
@pytest.mark.clause("X4", "X5")
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_ctrl_c_ends_a_program_whose_name_lookup_hangs(model: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(ASKING.format(model=model))
    keys = {f"{each}_API_KEY": "sk-none" for each in ("OPENAI", "ANTHROPIC")}
    addresses = {f"{each}_BASE_URL": ADDRESS for each in ("OPENAI", "ANTHROPIC")}
    environment, looked_up = hanging_lookup(tmp_path)
    with subprocess.Popen(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env={**os.environ, **keys, **addresses, **environment},
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            clock = SystemClock()
            deadline = clock.monotonic() + PATIENCE
            while not looked_up.exists():
                assert child.poll() is None, child.communicate()
                assert clock.monotonic() < deadline, "nobody looked the name up"
                clock.wait(threading.Event(), 0.01)
            child.send_signal(signal.SIGINT)
            # asyncio waits minutes for threads of its own executor: far longer than this.
            _, complaints = child.communicate(timeout=PATIENCE)
        finally:
            child.kill()
    assert child.returncode == -signal.SIGINT
    assert complaints.rstrip().endswith("KeyboardInterrupt")
