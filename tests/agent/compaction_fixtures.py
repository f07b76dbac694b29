"""Agents that compact, and conversations to compact."""

from collections.abc import Callable, Sequence
from typing import Any

from holdfast import Agent, SessionDB
from holdfast.core.contract import Message
from holdfast.testing import ScriptedModel

SUMMARY: Message = {"role": "user", "content": "what was said before"}


class CountingCompressor:
    """A compressor that keeps the last message and counts its calls."""

    def __init__(self, before: Callable[[], object] = lambda: None) -> None:
        self.calls = 0
        self._before = before

    def compress(self, messages: Sequence[Message]) -> list[Message]:
        self.calls += 1
        self._before()
        return [SUMMARY, *messages[-1:]]


def conversation(db: SessionDB, turns: int = 6, session: str = "s") -> list[Message]:
    db.create_session(session, source="test")
    for turn in range(turns):
        db.sessions.append_message(session, {"role": "user", "content": f"question {turn} " * 20})
        db.sessions.append_message(session, {"role": "assistant", "content": f"answer {turn} " * 20})
    return db.get_messages(session)


def an_agent(db: SessionDB, compressor: Any, model: ScriptedModel | None = None) -> Agent:  # noqa: ANN401
    agent = Agent(model or ScriptedModel(), db, "s")
    agent.compressor = compressor
    return agent
