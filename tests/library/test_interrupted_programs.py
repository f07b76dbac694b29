"""Ctrl-C in a program: the turn is stopped, what it had produced is on record, and the program ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import SessionDB
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
