"""The state of one session in `SessionLifecycle`: its agent, its uncommitted turns and the running commit.

Plain data without locks: `lifecycle.py` guards it and acts on it.
"""

import enum
import threading
from dataclasses import dataclass, field

from holdfast.memory.contract import MemoryCommitter
from holdfast.memory.segments import Segment, Segments


class CommitOutcome(enum.Enum):
    """The result of one attempt to commit."""

    COMMITTED = "committed"
    FAILED = "failed"
    CLEAN = "nothing is dirty"
    UNOWNED = "the oldest segment has no owner, and no agent is known"
    BUSY = "another commit of this session is in flight"


@dataclass(slots=True, eq=False)
class MemoryCommit:
    """One attempt to commit a segment."""

    thread: int
    done: threading.Event = field(default_factory=threading.Event)
    outcome: CommitOutcome = CommitOutcome.FAILED
    segment: Segment | None = None
    owner: MemoryCommitter | None = None
    behind: int = 0
    """How many segments were behind this one when the commit began."""


@dataclass(slots=True, eq=False)
class TrackedSession:
    """One session, tracked while it has an agent or uncommitted turns."""

    agent: MemoryCommitter | None = None
    dirty: Segments = field(default_factory=Segments)
    in_flight: MemoryCommit | None = None
    agents: set[int] = field(default_factory=set)
    """The agents, by their `id`, under which `SessionLifecycle` finds this session."""

    def is_busy(self) -> bool:
        return self.in_flight is not None or len(self.dirty) > 0

    def is_settled(self) -> bool:
        """Whether the session needs no tracking any more."""
        return self.agent is None and not self.is_busy()

    def needs(self, agent: MemoryCommitter) -> bool:
        """Whether the running commit or a dirty segment belongs to this agent."""
        running = self.in_flight is not None and self.in_flight.owner is agent
        return running or self.dirty.belongs_to(agent)
