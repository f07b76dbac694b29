"""What killed writers acknowledged, and whether the store still has it, whole and once."""

import json
from collections import Counter
from typing import Any

from holdfast.sessions import SessionDB
from tests.sessions.workers.writer import OPENING, PROVIDERS, Word, opening_of

PAGE = 10_000


class Ledger:
    """Every word of every life."""

    def __init__(self) -> None:
        self.kills = 0
        self.words: list[Word] = []

    def note_death(self, words: list[Word]) -> None:
        self.kills += 1
        self.words += words

    def acknowledged(self, what: str) -> list[Word]:
        return [word for word in self.words if word[0] == what]

    def __str__(self) -> str:
        return f"{self.kills} kills, {len(self.words)} acknowledged writes"


class Conversation:
    """One lineage as its export tells it."""

    def __init__(self, db: SessionDB, root: str) -> None:
        self.sessions: list[dict[str, Any]] = []
        self.turns: dict[str, dict[str, Any]] = {}
        self.transcripts: dict[str, list[dict[str, Any]]] = {}
        for line in db.export_session(root)[1:]:
            ((kind, fields),) = json.loads(line).items()
            if kind == "session":
                self.sessions.append(fields)
                self.transcripts[fields["id"]] = []
            elif kind == "turn":
                self.turns[fields["id"]] = fields
            elif kind == "message":
                self.transcripts[fields["session_id"]].append(fields)
        self.first_said = [
            each for lines in self.transcripts.values() for each in lines if not each["carried"]
        ]

    def texts(self) -> Counter[tuple[str | None, str]]:
        """How often each text was said, and in which turn; copies do not count."""
        return Counter((each["turn_id"], each["message"]["content"]) for each in self.first_said)


def assert_whole(db: SessionDB, roots: list[str]) -> list[Conversation]:
    """Nothing half-written is visible in these conversations."""
    found = [Conversation(db, root) for root in roots]
    owed = owed_turns(db)
    completed: set[tuple[str, str]] = set()
    for conversation in found:
        assert_one_line(db, conversation)
        spoken = {each["turn_id"] for each in conversation.first_said}
        assert set(conversation.turns) == spoken - {None}, "a turn without its message"
        completed |= {
            (turn["id"], provider)
            for turn in conversation.turns.values()
            if turn["state"] == "completed"
            for provider in PROVIDERS
        }
        assert max(conversation.texts().values(), default=1) == 1, "something was stored twice"
    assert owed == completed, "the outbox does not match the completed turns"
    return found


def assert_one_line(db: SessionDB, conversation: Conversation) -> None:
    """One continuation each, the last one open, every child whole, no gap in any transcript."""
    *ended, last = conversation.sessions
    assert last["ended"] is None
    for at, session in enumerate(conversation.sessions):
        lines = conversation.transcripts[session["id"]]
        assert [each["seq"] for each in lines] == list(range(len(lines)))
        assert len(db.children(session["id"])) == (0 if session is last else 1)
        if at:
            before = conversation.sessions[at - 1]
            assert session["parent"] == before["id"]
            assert_carried(conversation.transcripts[before["id"]], lines, session["id"])
    assert {each["end_reason"] for each in ended} <= {"compression"}


def assert_carried(parent: list[dict[str, Any]], child: list[dict[str, Any]], child_id: str) -> None:
    opening = opening_of(child_id)
    assert [each["message"] for each in child[: len(opening)]] == opening, "half an opening"
    carried = [(each["message"], each["turn_id"]) for each in child if each["carried"]]
    tail = parent[len(parent) - len(carried) :]
    assert carried == [(each["message"], each["turn_id"]) for each in tail], "something left behind"


def owed_turns(db: SessionDB) -> set[tuple[str, str]]:
    rows: set[tuple[str, str]] = set()
    last = 0
    while page := db.outbox.list("owed", after=last, limit=PAGE):
        rows |= {(each.turn_id, each.provider) for each in page}
        last = page[-1].id
    return rows


def assert_kept(db: SessionDB, ledger: Ledger, roots: list[str]) -> int:
    """Every acknowledged write is there, and little else; returns how much was found."""
    found = assert_whole(db, roots)
    texts: Counter[tuple[str | None, str]] = Counter()
    turns: dict[str, dict[str, Any]] = {}
    parents: dict[str, str] = {}
    for conversation in found:
        texts += conversation.texts()
        turns |= conversation.turns
        parents |= {each["id"]: each["parent"] for each in conversation.sessions}
    for _, text in ledger.acknowledged("said"):
        assert texts[None, text] == 1, text
    for _, turn, text in ledger.acknowledged("step"):
        assert texts[turn, text] == 1, text
    for _, turn, text in ledger.acknowledged("completed"):
        assert texts[turn, text] == 1, text
        assert turns[turn]["state"] == "completed", turn
    for _, turn in ledger.acknowledged("stopped"):
        assert turns[turn]["state"] == "interrupted", turn
    for _, parent, child in ledger.acknowledged("rotated"):
        assert parents[child] == parent, child
    assert_words_kept(db, ledger, texts)
    # A life can have stored one thing more than it came to say: what it was about to acknowledge.
    stored = texts.total() - OPENING * rotations(found)
    said = sum(len(ledger.acknowledged(what)) for what in ("said", "step", "took", "completed"))
    assert said <= stored <= said + ledger.kills
    return stored + len(turns) + rotations(found)


def rotations(found: list[Conversation]) -> int:
    return sum(len(conversation.sessions) - 1 for conversation in found)


def assert_words_kept(db: SessionDB, ledger: Ledger, texts: Counter[tuple[str | None, str]]) -> None:
    """Every word put waits, or stands once in the turn that took it."""
    taken = {inbox_id: turn for _, turn, inbox_id in ledger.acknowledged("took")}
    for _, text, inbox_id in ledger.acknowledged("put"):
        word = db.inbox.get(inbox_id)
        assert word is not None, text
        assert word.message.get("content") == text
        assert inbox_id not in taken or word.turn_id == taken[inbox_id]
        assert word.state in ("waiting", "taken")
        assert texts[word.turn_id, text] == (0 if word.turn_id is None else 1), text
