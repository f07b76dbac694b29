"""What the session store should be, in plain Python: the model beside the journal machine.

Every method checks first and changes afterwards, and refuses with the store's own errors.
"""

from collections import Counter
from dataclasses import dataclass, field

from holdfast.core.contract import Message
from holdfast.core.errors import (
    AlreadyContinued,
    InvalidInput,
    NotWaiting,
    SessionBusy,
    SessionEnded,
    StillOwed,
    TurnAlreadyRunning,
    TurnNotRunning,
)


@dataclass
class Line:
    """A message in its place."""

    message: Message
    turn_id: str | None
    carried: bool = False


@dataclass
class ModelSession:
    """A transcript with its place in a conversation."""

    id: str
    parent: str | None = None
    relation: str | None = None
    lines: list[Line] = field(default_factory=list)
    end_reason: str | None = None
    committed: int = 0


@dataclass
class ModelTurn:
    """A turn; `messages` is all that was said in it, each once."""

    id: str
    session_id: str
    state: str = "running"
    reason: str | None = None
    generation: int | None = None
    messages: list[Message] = field(default_factory=list)
    providers: tuple[str, ...] = ()


@dataclass
class ModelWord:
    """A user's word in the inbox."""

    id: int
    session_id: str
    message: Message
    state: str = "waiting"
    turn_id: str | None = None


class Conversations:
    """Sessions, turns and inbox as they should be."""

    def __init__(self) -> None:
        self.sessions: dict[str, ModelSession] = {}
        self.turns: dict[str, ModelTurn] = {}
        self.words: dict[int, ModelWord] = {}
        self.arranged: dict[str, tuple[str | None, bool]] = {}

    # looking

    def continuation(self, session_id: str) -> str | None:
        found = [
            each.id
            for each in self.sessions.values()
            if each.parent == session_id and each.relation == "continuation"
        ]
        return found[0] if found else None

    def live_end(self, session_id: str) -> str:
        while (child := self.continuation(session_id)) is not None:
            session_id = child
        return session_id

    def lineage(self, session_id: str) -> list[str]:
        session = self.sessions[session_id]
        while session.relation == "continuation" and session.parent is not None:
            session = self.sessions[session.parent]
        line = [session.id]
        while (child := self.continuation(line[-1])) is not None:
            line.append(child)
        return line

    def running(self, session_id: str) -> ModelTurn | None:
        for turn in self.turns.values():
            if turn.session_id == session_id and turn.state == "running":
                return turn
        return None

    def any_running(self) -> bool:
        return any(turn.state == "running" for turn in self.turns.values())

    def any_waiting(self) -> bool:
        return any(word.state == "waiting" for word in self.words.values())

    def completed(self, session_id: str) -> list[ModelTurn]:
        return [
            turn
            for turn in self.turns.values()
            if turn.session_id == session_id and turn.state == "completed"
        ]

    def waiting(self, session_id: str) -> list[ModelWord]:
        return [
            word for word in self.words.values() if word.session_id == session_id and word.state == "waiting"
        ]

    # changing

    def create(self, session_id: str, parent: str | None) -> None:
        self.sessions[session_id] = ModelSession(session_id, parent, "branch" if parent else None)

    def put(self, session_id: str) -> str:
        """Where a put message goes."""
        end = self.live_end(session_id)
        self._require_open(end)
        return end

    def withdraw(self, inbox_id: int) -> None:
        self._require_waiting(inbox_id).state = "withdrawn"

    def edit(self, inbox_id: int, message: Message) -> None:
        self._require_waiting(inbox_id).message = message

    def open(self, session_id: str, turn_id: str, message: Message | None, take: int | None) -> None:
        running = self.running(session_id)
        if running is not None:
            raise TurnAlreadyRunning(session_id, running.id)
        self._require_open(session_id)
        if take is not None:
            word = self._require_waiting(take, session_id)
            word.state, word.turn_id = "taken", turn_id
            message = word.message
        assert message is not None
        self.turns[turn_id] = ModelTurn(turn_id, session_id)
        self._say(turn_id, [message])

    def join(self, turn_id: str, take: int) -> None:
        turn = self._require_running(turn_id)
        word = self._require_waiting(take, turn.session_id)
        self._require_open(turn.session_id)
        word.state, word.turn_id = "taken", turn_id
        self._say(turn_id, [word.message])

    def append(self, turn_id: str, messages: list[Message]) -> None:
        self._require_running(turn_id)
        self._say(turn_id, messages)

    def append_loose(self, session_id: str, messages: list[Message]) -> None:
        self._require_open(session_id)
        self.sessions[session_id].lines += [Line(message, None) for message in messages]

    def complete(self, turn_id: str, message: Message | None, providers: tuple[str, ...]) -> None:
        turn = self._require_running(turn_id)
        self._say(turn_id, [] if message is None else [message])
        turn.generation = len(self.completed(turn.session_id)) + 1
        turn.state, turn.providers = "completed", providers

    def stop(self, turn_id: str, state: str, reason: str, messages: list[Message]) -> None:
        turn = self._require_running(turn_id)
        self._say(turn_id, messages)
        turn.state, turn.reason = state, reason

    def mark_committed(self, session_id: str, generation: int) -> None:
        session = self.sessions[session_id]
        if session.committed < generation <= len(self.completed(session_id)):
            session.committed = generation

    def end(self, session_id: str, reason: str) -> None:
        if self.running(session_id) or self.waiting(session_id):
            raise SessionBusy(session_id, "a turn runs or messages wait")
        self._require_open(session_id)
        self.sessions[session_id].end_reason = reason

    def arrange(self, session_id: str, *, title: str | None, pinned: bool) -> None:
        root = self.lineage(session_id)[0]
        self.arranged[root] = (title, pinned)

    def delete(self, session_id: str, *, force: bool) -> None:
        line = self.lineage(session_id)
        turns = [turn for turn in self.turns.values() if turn.session_id in line]
        words = [word for word in self.words.values() if word.session_id in line]
        if not force:
            busy = [turn for turn in turns if turn.state == "running"]
            if busy or any(word.state == "waiting" for word in words):
                raise SessionBusy(line[0], "a turn runs or messages wait")
            owed = Counter(provider for turn in turns for provider in turn.providers)
            if owed:
                raise StillOwed(line[0], dict(owed))
        for gone in line:
            del self.sessions[gone]
        for turn in turns:
            del self.turns[turn.id]
        for word in words:
            del self.words[word.id]
        for each in self.sessions.values():
            if each.parent in line:
                each.parent = each.relation = None
        self.arranged.pop(line[0], None)

    def listed_of(self, session_id: str) -> tuple[str, tuple[str, str | None, bool]]:
        end = self.live_end(session_id)
        return end, self.listed()[end]

    def listed(self) -> dict[str, tuple[str, str | None, bool]]:
        """Where each conversation goes on, with its root, its title and whether it is pinned."""
        roots = {session: self.lineage(session)[0] for session in self.sessions}
        return {
            self.live_end(root): (root, *self.arranged.get(root, (None, False)))
            for root in set(roots.values())
        }

    def rotate(self, session_id: str, child_id: str, opening: list[Message], carry_from: int) -> None:
        parent = self.sessions[session_id]
        child = self.continuation(session_id)
        if child is not None:
            raise AlreadyContinued(session_id, child)
        if not 0 <= carry_from <= len(parent.lines):
            raise InvalidInput
        self._require_open(session_id)
        parent.end_reason = "compression"
        carried = [Line(each.message, each.turn_id, carried=True) for each in parent.lines[carry_from:]]
        lines = [Line(message, None) for message in opening] + carried
        self.sessions[child_id] = ModelSession(child_id, session_id, "continuation", lines)
        for word in self.waiting(session_id):
            word.session_id = child_id
        running = self.running(session_id)
        if running is not None:
            running.session_id = child_id

    def _say(self, turn_id: str, messages: list[Message]) -> None:
        turn = self.turns[turn_id]
        if messages:
            self._require_open(turn.session_id)
        turn.messages += messages
        self.sessions[turn.session_id].lines += [Line(message, turn_id) for message in messages]

    def _require_open(self, session_id: str) -> None:
        session = self.sessions[session_id]
        if session.end_reason is not None:
            end = self.live_end(session_id)
            raise SessionEnded(session_id, session.end_reason, end if end != session_id else None)

    def _require_running(self, turn_id: str) -> ModelTurn:
        turn = self.turns[turn_id]
        if turn.state != "running":
            raise TurnNotRunning(turn_id, turn.state)
        return turn

    def _require_waiting(self, inbox_id: int, session_id: str | None = None) -> ModelWord:
        word = self.words[inbox_id]
        if word.state != "waiting":
            raise NotWaiting(inbox_id, word.state)
        if session_id is not None and word.session_id != session_id:
            raise NotWaiting(inbox_id, "in another session")
        return word
