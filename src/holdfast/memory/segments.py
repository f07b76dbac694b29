"""The uncommitted turns of one session, as segments with owners.

Plain data without locks, threads or I/O: `lifecycle.py` guards it and acts on it. Turns are numbered by
the store for sessions it knows, and by a count kept here for the others. The two numberings never meet in
one segment, so a session may become known to the store at any time.
"""

from dataclasses import dataclass

from holdfast.memory.contract import MemoryCommitter


@dataclass(slots=True, eq=False)
class Segment:
    """Completed turns in a row that belong to one agent, or to none that is known here."""

    owner: MemoryCommitter | None
    first: int
    last: int
    stored: bool
    """Whether the numbers are the store's generations."""


class Segments:
    """What is dirty in one session, oldest first. At most one segment is taken by a commit at a time."""

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._taken: Segment | None = None
        self._counted = 0
        """Turns completed here that the store does not know."""
        self._seen = 0
        """The latest generation of the store that this session has heard of."""

    def __len__(self) -> int:
        return len(self._segments)

    def belongs_to(self, agent: MemoryCommitter) -> bool:
        """Whether some of the work is this agent's."""
        return any(segment.owner is agent for segment in self._segments)

    def owners(self) -> list[MemoryCommitter | None]:
        """Whose the work is, oldest first."""
        return [segment.owner for segment in self._segments]

    def is_unowned(self) -> bool:
        """Whether some of the work is nobody's, so that any agent of the session may commit it."""
        return any(segment.owner is None for segment in self._segments)

    # turns come in

    def count(self, owner: MemoryCommitter | None) -> int:
        """A turn was completed that the store does not know; returns its number."""
        self._counted += 1
        self._segments.append(Segment(owner, self._counted, self._counted, stored=False))
        self._join()
        return self._counted

    def learn(self, generation: int, committed: int) -> None:
        """Take over what the store says. News that are older than what is known change nothing."""
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
        """The turn with this generation is the owner's, unless somebody has it already."""
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
        """The oldest segment and who commits it: its owner, else `fallback`, else the next known owner.

        Work that is nobody's belongs from now on to whoever tries, so a retry needs no agent. None when
        nothing is dirty, or nobody is known.
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
        """The commit that took this segment is over; unless it succeeded, all stays as it was."""
        self._taken = None
        if committed and segment in self._segments:
            self._segments.remove(segment)
        self._join()

    def _join(self) -> None:
        """Make one segment of neighbours with one owner, so that they are one commit.

        What a commit has taken stays apart: it may not grow under it.
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
