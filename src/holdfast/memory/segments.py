"""The uncommitted turns of one session, in segments that each belong to one agent.

Plain data without locks, threads or I/O: `lifecycle.py` guards it and acts on it. Turns are numbered by
the store for the sessions it has, and by a counter here for the others. One segment never mixes the two
numberings, so a session may be added to the store at any time.
"""

from dataclasses import dataclass

from holdfast.memory.contract import MemoryCommitter


@dataclass(slots=True, eq=False)
class Segment:
    """Consecutive completed turns that belong to one agent, or to no known agent."""

    owner: MemoryCommitter | None
    first: int
    last: int
    stored: bool
    """Whether the numbers are the store's generations."""


class Segments:
    """The dirty segments of one session, oldest first. A commit takes at most one segment at a time."""

    def __init__(self, counted: int = 0) -> None:
        self._segments: list[Segment] = []
        self._taken: Segment | None = None
        self.counted = counted
        """The number of the last turn that is not in the store."""
        self._seen = 0
        """The newest generation that was read from the store."""

    def __len__(self) -> int:
        return len(self._segments)

    def belongs_to(self, agent: MemoryCommitter) -> bool:
        """Whether a segment belongs to this agent."""
        return any(segment.owner is agent for segment in self._segments)

    def is_unowned(self) -> bool:
        """Whether a segment has no owner, so that any agent of the session may commit it."""
        return any(segment.owner is None for segment in self._segments)

    # turns come in

    def count(self, owner: MemoryCommitter | None) -> int:
        """Record a completed turn that is not in the store; returns its number."""
        self.counted += 1
        self._segments.append(Segment(owner, self.counted, self.counted, stored=False))
        self._join()
        return self.counted

    def learn(self, generation: int, committed: int) -> None:
        """Apply the generations from the store. Older values than the known ones change nothing."""
        for segment in self._segments:
            if segment.stored and segment.first <= committed:
                segment.first = committed + 1
        self._segments = [segment for segment in self._segments if segment.first <= segment.last]
        known = max(self._seen, committed)
        if generation > known:
            self._segments.append(Segment(None, known + 1, generation, stored=True))
        self._seen = max(known, generation)
        self._join()

    def claim(self, generation: int, owner: MemoryCommitter) -> None:
        """Assign the turn with this generation to an owner, unless it has one."""
        for at, segment in enumerate(self._segments):
            if segment.stored and segment.owner is None and segment.first <= generation <= segment.last:
                self._segments[at : at + 1] = [
                    part
                    for part in (
                        Segment(None, segment.first, generation - 1, stored=True),
                        Segment(owner, generation, generation, stored=True),
                        Segment(None, generation + 1, segment.last, stored=True),
                    )
                    if part.first <= part.last
                ]
                break
        self._join()

    # a commit takes the oldest

    def take(self, fallback: MemoryCommitter | None) -> tuple[Segment, MemoryCommitter] | None:
        """The oldest segment and its committer: its owner, else `fallback`, else the next known owner.

        A segment without an owner gets this committer as its owner, so a retry needs no agent. None when
        nothing is dirty, or no agent is known.
        """
        if not self._segments:
            return None
        oldest = self._segments[0]
        candidates = [oldest.owner, fallback, *(segment.owner for segment in self._segments)]
        owner = next((agent for agent in candidates if agent is not None), None)
        if owner is None:
            return None
        oldest.owner = owner
        self._join()
        self._taken = self._segments[0]
        return self._taken, owner

    def settle(self, segment: Segment, *, committed: bool) -> None:
        """End the commit that took this segment; remove the segment when the commit succeeded."""
        self._taken = None
        if committed and segment in self._segments:
            self._segments.remove(segment)
        self._join()

    def _join(self) -> None:
        """Merge neighbouring segments of one owner, so that they need one commit.

        The segment that a running commit has taken is never merged: it must not grow during the commit.
        """
        joined: list[Segment] = []
        for segment in self._segments:
            before = joined[-1] if joined else None
            if (
                before is not None
                and self._taken not in (before, segment)
                and before.owner is segment.owner
                and before.stored == segment.stored
            ):
                before.last = segment.last
            else:
                joined.append(segment)
        self._segments = joined
