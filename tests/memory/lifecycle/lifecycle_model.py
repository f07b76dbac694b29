"""What the lifecycle should be, in plain Python: a list of turns with owners, per session."""

from dataclasses import dataclass, field
from itertools import groupby

SESSIONS = ("s1", "s2", "local")
STORED = SESSIONS[:2]
"""The sessions that the store knows; the other lives in memory only."""


class ModelDied(Exception):
    """The commit raised what nobody catches."""


@dataclass
class ModelSession:
    """`turns` are the owners of the uncommitted turns, oldest first; None: nobody's."""

    generation: int = 0
    turns: list[str | None] = field(default_factory=list)
    registered: str | None = None
    flight: tuple[str, int] | None = None
    """Who commits how many turns right now."""


class LifecycleModel:
    """Agents are names. `broken` are those whose commits fail at present."""

    def __init__(self) -> None:
        self.sessions = {sid: ModelSession() for sid in SESSIONS}
        self.calls: list[str] = []
        self.broken: str | None = None
        self.dies = False

    def dirty(self) -> list[str]:
        return [sid for sid, session in self.sessions.items() if session.turns]

    def complete(self, sid: str, agent: str | None) -> int:
        session = self.sessions[sid]
        session.generation += 1
        session.turns.append(agent or session.registered)
        return session.generation

    def mark_again(self, sid: str, agent: str | None) -> int:
        session = self.sessions[sid]
        if session.turns and session.turns[-1] is None:
            session.turns[-1] = agent or session.registered
        return session.generation

    # commits

    def begin(self, sid: str, agent: str | None) -> str:
        """Take the oldest segment; the word for what came of it."""
        session = self.sessions[sid]
        if session.flight is not None:
            return "busy"
        if not session.turns:
            return "clean"
        owner = next(filter(None, [session.turns[0], agent, session.registered, *session.turns]), None)
        if owner is None:
            return "unowned"
        unowned = next((at for at, each in enumerate(session.turns) if each is not None), len(session.turns))
        session.turns[:unowned] = [owner] * unowned
        taken = next((at for at, each in enumerate(session.turns) if each != owner), len(session.turns))
        session.flight = (owner, taken)
        self.calls.append(owner)
        return "begun"

    def end(self, sid: str, *, committed: bool) -> None:
        session = self.sessions[sid]
        assert session.flight is not None
        if committed:
            del session.turns[: session.flight[1]]
        session.flight = None

    def attempt(self, sid: str, agent: str | None) -> str:
        begun = self.begin(sid, agent)
        if begun != "begun":
            return begun
        session = self.sessions[sid]
        assert session.flight is not None
        fails = session.flight[0] == self.broken
        self.end(sid, committed=not fails)
        if fails and self.dies:
            raise ModelDied
        return "failed" if fails else "committed"

    def commit(self, sid: str, agent: str | None, *, wait: bool) -> bool:
        before = self.begin(sid, agent)
        behind = len(list(groupby(self.sessions[sid].turns))) - 1
        if before == "begun":
            self.end(sid, committed=False)
            self.calls.pop()
        if self.attempt(sid, agent) != "committed":
            return False
        return all(self.attempt(sid, agent) in ("committed", "clean") for _ in range(behind if wait else 0))

    def evict(self, sid: str, agent: str) -> bool:
        while (owing := self._owing(sid, agent)) is not None:
            if self.attempt(owing, agent) != "committed":
                return False
        for session in self.sessions.values():
            if session.registered == agent:
                session.registered = None
        return True

    def _owing(self, sid: str, agent: str) -> str | None:
        if None in self.sessions[sid].turns:
            return sid
        return next((each for each, session in self.sessions.items() if agent in session.turns), None)

    def drain(self) -> list[str]:
        for sid in self.dirty():
            try:
                while self.attempt(sid, None) == "committed":
                    pass
            except ModelDied:
                pass
        return self.dirty()

    # the end of the process

    def crash(self) -> None:
        """Agents are gone and so is what only memory knew; the store keeps the marks."""
        for sid, session in self.sessions.items():
            session.registered = session.flight = None
            session.turns = [None] * len(session.turns) if sid in STORED else []
            session.generation = session.generation if sid in STORED else 0
