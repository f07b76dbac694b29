"""What `SessionLifecycle` knows of one session: its agent, its uncommitted turns and the commit in flight.

Plain data without locks: `lifecycle.py` guards it and acts on it.
"""

import enum
import threading
from dataclasses import dataclass, field

from holdfast.memory.contract import MemoryCommitter
from holdfast.memory.segments import Segment, Segments


class Outcome(enum.Enum):
    """What became of one attempt to commit."""

    COMMITTED = "committed"
    FAILED = "failed"
    CLEAN = "nothing is dirty"
    UNOWNED = "the oldest segment is nobody's, and no agent is known"
    BUSY = "another commit of this session is in flight"


@dataclass(slots=True, eq=False)
class Commit:
    """One commit, from the attempt on."""

    thread: int
    done: threading.Event = field(default_factory=threading.Event)
    outcome: Outcome = Outcome.FAILED
    segment: Segment | None = None
    owner: MemoryCommitter | None = None
    behind: int = 0
    """How many segments waited behind this one when it began."""


@dataclass(slots=True, eq=False)
class Tracked:
    """One session as this process knows it. It outlives its agent: its numbers must not go back."""

    number: int
    """The earlier it was heard of, the lower."""
    agent: MemoryCommitter | None = None
    dirty: Segments = field(default_factory=Segments)
    in_flight: Commit | None = None

    def is_busy(self) -> bool:
        return self.in_flight is not None or len(self.dirty) > 0

    def needs(self, agent: MemoryCommitter) -> bool:
        """Whether a commit in flight or to come is this agent's own."""
        running = self.in_flight is not None and self.in_flight.owner is agent
        return running or self.dirty.belongs_to(agent)

    def agents(self) -> list[MemoryCommitter]:
        """Everybody who has anything to do with the session."""
        running = self.in_flight.owner if self.in_flight is not None else None
        return [each for each in (self.agent, running, *self.dirty.owners()) if each is not None]

    def knows(self, agent: MemoryCommitter) -> bool:
        """Whether this agent has anything to do with the session."""
        return any(each is agent for each in self.agents())
