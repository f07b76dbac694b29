"""`AgentSessions`: the sessions in which an agent is registered or has work.

Evicting an agent looks at these sessions only. Plain data without locks: `lifecycle.py` guards it. The index
may name a session too many, never one too few.
"""

from collections.abc import Iterable

from holdfast.memory.contract import MemoryCommitter


class AgentSessions:
    """Maps agents to their sessions by the identity of the agent, which need not be hashable."""

    def __init__(self) -> None:
        self._sessions: dict[int, set[str]] = {}

    def of(self, agent: MemoryCommitter) -> Iterable[str]:
        """The sessions of an agent, and perhaps some that it has left."""
        return self._sessions.get(id(agent), ())

    def add(self, agent: MemoryCommitter, sid: str) -> None:
        self._sessions.setdefault(id(agent), set()).add(sid)

    def discard(self, agent: MemoryCommitter, sid: str) -> None:
        sessions = self._sessions.get(id(agent), set())
        sessions.discard(sid)
        if not sessions:
            self._sessions.pop(id(agent), None)

    def forget(self, agent: MemoryCommitter) -> None:
        self._sessions.pop(id(agent), None)
