"""The journal machine: conversations on several processes that crash, beside a model of them.

What a rule picks is mostly what can still change, newest first, and now and then something that ended
long ago: a process may know only an ancestor of the live session, or a turn that is over.
"""

from collections.abc import Callable
from itertools import count
from typing import cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.core.contract import Message
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import Mode
from holdfast.testing.faults import Moment
from tests.sessions.machines.conversation_model import Conversations, ModelSession, ModelWord
from tests.sessions.machines.store_processes import NewDatabase, StoreProcesses

PROCESSES = 3
EVERYTHING = 100_000

who = st.integers(0, PROCESSES - 1)
crash: st.SearchStrategy[Moment | None] = st.sampled_from([None, None, "before", "after"])
pick = st.sampled_from([0, 0, 0, 0, 1, 1, 2, 3, 5, 8])
kinds = st.sampled_from(["plain", "plain", "plain", "parts", "call", "result", "odd", "empty"])
several = st.lists(kinds, min_size=1, max_size=3)
modes: st.SearchStrategy[Mode] = st.sampled_from(["queue", "steer", "interrupt"])
owed_to = st.sampled_from([(), ("alpha",), ("alpha", "beta")])


def message(kind: str, number: int) -> Message:
    """A message of some shape that no other message of the example equals."""
    text = f"word {number}"
    shapes: dict[str, dict[str, object]] = {
        "plain": {"role": "user", "content": text},
        "parts": {"role": "user", "content": [{"type": "text", "text": text}]},
        "call": {"role": "assistant", "content": None, "tool_calls": [{"id": text}]},
        "result": {"role": "tool", "content": text, "tool_call_id": f"call {number}"},
        "odd": {"role": "user", "content": f"{text} \x00\ud800 '\"%:x\n\u00e9\U0001f642"},
        "empty": {"role": "user", "content": "", "name": text},
    }
    return cast(Message, shapes[kind])


class JournalMachine(RuleBasedStateMachine):
    """Put, open, join, append, complete, stop, rotate; die before or after any commit."""

    def __init__(self, new_database: NewDatabase) -> None:
        super().__init__()
        self.database = new_database()
        self.processes = StoreProcesses(self.database, PROCESSES)
        self.model = Conversations()
        self.numbers = count(1)

    def teardown(self) -> None:
        try:
            assert self.processes.db(0).check() == []
        finally:
            self.processes.tidy()

    # what a rule picks

    def fresh(self, prefix: str) -> str:
        return f"{prefix}{next(self.numbers)}"

    def some(self, kind: str) -> Message:
        return message(kind, next(self.numbers))

    def session(self, back: int) -> ModelSession:
        known = list(reversed(self.model.sessions.values()))
        known.sort(key=lambda each: each.end_reason is not None)
        return known[back % len(known)]

    def idle_session(self, back: int) -> str:
        known = list(reversed(self.model.sessions.values()))
        known.sort(key=lambda each: each.end_reason is not None or bool(self.model.running(each.id)))
        return known[back % len(known)].id

    def turn(self, back: int) -> str:
        known = list(reversed(self.model.turns.values()))
        known.sort(key=lambda each: each.state != "running")
        return known[back % len(known)].id

    def word(self, back: int) -> int:
        known = list(reversed(self.model.words.values()))
        known.sort(key=lambda each: each.state != "waiting")
        return known[back % len(known)].id

    # sessions

    @initialize()
    def begin(self) -> None:
        self.processes.db(0).create_session("s", source="test")
        self.model.create("s", None)
        self.put(0, None, 0, "plain", "queue")
        self.open_with_a_message(0, None, 0, "plain")

    @rule(who=who, crash=crash, back=pick, kinds=several)
    def append_loose(self, who: int, crash: Moment | None, back: int, kinds: list[str]) -> None:
        session, messages = self.session(back), [self.some(kind) for kind in kinds]
        self.processes.step(
            who,
            crash,
            lambda db: db.sessions.append_messages(session.id, messages),
            lambda: self.model.append_loose(session.id, messages),
        )

    @rule(who=who, crash=crash, back=pick, kinds=st.lists(kinds, max_size=2), kept=st.integers(-1, 4))
    def rotate(self, who: int, crash: Moment | None, back: int, kinds: list[str], kept: int) -> None:
        session, child = self.session(back), self.fresh("s")
        opening, carry_from = [self.some(kind) for kind in kinds], len(session.lines) - kept
        rotation = self.processes.step(
            who,
            crash,
            lambda db: db.rotate(session.id, child, opening, carry_from=carry_from),
            lambda: self.model.rotate(session.id, child, opening, carry_from),
        )
        assert rotation is None or (rotation.child_id, rotation.carried) == (child, max(kept, 0))

    @rule(who=who, crash=crash, back=pick, job=st.sampled_from(["create", "branch", "end", "commit"]))
    def keep_house(self, who: int, crash: Moment | None, back: int, job: str) -> None:
        session, fresh = self.session(back).id, self.fresh("s")
        generation = len(self.model.completed(session))
        jobs: dict[str, tuple[Callable[[SessionDB], object], Callable[[], object]]] = {
            "create": (
                lambda db: db.create_session(fresh, source="test"),
                lambda: self.model.create(fresh, None),
            ),
            "branch": (
                lambda db: db.create_session(fresh, source="test", parent=session, relation="branch"),
                lambda: self.model.create(fresh, session),
            ),
            "end": (
                lambda db: db.sessions.end(session, "done"),
                lambda: self.model.end(session, "done"),
            ),
            "commit": (
                lambda db: db.sessions.mark_committed(session, generation),
                lambda: self.model.mark_committed(session, generation),
            ),
        }
        self.processes.step(who, crash, *jobs[job])

    @rule(who=who, crash=crash, back=pick, pinned=st.booleans())
    def arrange(self, who: int, crash: Moment | None, back: int, pinned: bool) -> None:
        session, title = self.session(back).id, self.fresh("title")

        def arrange(db: SessionDB) -> None:
            db.conversations.set_title(session, title)

        self.processes.db(who).conversations.set_pinned(session, pinned)
        _, (root, was, _) = self.model.listed_of(session)
        self.model.arrange(root, title=was, pinned=pinned)
        self.processes.step(who, crash, arrange, lambda: self.model.arrange(root, title=title, pinned=pinned))

    @precondition(lambda self: len(self.model.listed()) > 1)
    @rule(who=who, crash=crash, back=pick, force=st.booleans())
    def delete(self, who: int, crash: Moment | None, back: int, force: bool) -> None:
        session = self.session(back).id
        self.processes.step(
            who,
            crash,
            lambda db: db.delete_session(session, force=force),
            lambda: self.model.delete(session, force=force),
        )

    # the inbox

    @rule(who=who, crash=crash, back=pick, kind=kinds, mode=modes)
    def put(self, who: int, crash: Moment | None, back: int, kind: str, mode: Mode) -> None:
        session, text, key = self.session(back).id, self.some(kind), self.fresh("key")

        def model() -> None:
            end = self.model.put(session)
            # Whoever heard no answer asks again with the same key, and the word is there once.
            stored = self.processes.db(who).inbox.put(session, text, mode=mode, key=key)
            assert (stored.session_id, stored.message, stored.mode) == (end, text, mode)
            self.model.words[stored.id] = ModelWord(stored.id, end, text)

        self.processes.step(who, crash, lambda db: db.inbox.put(session, text, mode=mode, key=key), model)

    @precondition(lambda self: self.model.any_waiting())
    @rule(who=who, crash=crash, back=pick)
    def withdraw(self, who: int, crash: Moment | None, back: int) -> None:
        word = self.word(back)
        self.processes.step(who, crash, lambda db: db.inbox.withdraw(word), lambda: self.model.withdraw(word))

    @precondition(lambda self: self.model.any_waiting())
    @rule(who=who, crash=crash, back=pick, kind=kinds)
    def edit(self, who: int, crash: Moment | None, back: int, kind: str) -> None:
        word, text = self.word(back), self.some(kind)
        self.processes.step(
            who, crash, lambda db: db.inbox.edit(word, text), lambda: self.model.edit(word, text)
        )

    # turns

    @rule(who=who, crash=crash, back=pick, kind=kinds)
    def open_with_a_message(self, who: int, crash: Moment | None, back: int, kind: str) -> None:
        session, turn, text = self.idle_session(back), self.fresh("t"), self.some(kind)
        self.processes.step(
            who,
            crash,
            lambda db: db.turns.open(session, text, turn_id=turn),
            lambda: self.model.open(session, turn, text, None),
        )

    @precondition(lambda self: self.model.any_waiting())
    @rule(who=who, crash=crash, back=pick, elsewhere=st.none() | pick)
    def open_with_a_word(self, who: int, crash: Moment | None, back: int, elsewhere: int | None) -> None:
        word, turn = self.word(back), self.fresh("t")
        here = self.model.words[word].session_id
        session = here if elsewhere is None else self.session(elsewhere).id
        self.processes.step(
            who,
            crash,
            lambda db: db.turns.open(session, take=word, turn_id=turn),
            lambda: self.model.open(session, turn, None, word),
        )

    @precondition(lambda self: self.model.any_waiting() and self.model.any_running())
    @rule(who=who, crash=crash, back=pick, word_back=pick)
    def join(self, who: int, crash: Moment | None, back: int, word_back: int) -> None:
        turn, word = self.turn(back), self.word(word_back)
        text = self.model.words[word].message
        joined = self.processes.step(
            who, crash, lambda db: db.turns.join(turn, word), lambda: self.model.join(turn, word)
        )
        assert joined is None or joined == text

    @precondition(lambda self: self.model.any_running())
    @rule(who=who, crash=crash, back=pick, kinds=several)
    def append(self, who: int, crash: Moment | None, back: int, kinds: list[str]) -> None:
        turn, messages = self.turn(back), [self.some(kind) for kind in kinds]
        self.processes.step(
            who,
            crash,
            lambda db: db.turns.append(turn, messages),
            lambda: self.model.append(turn, messages),
        )

    @precondition(lambda self: self.model.any_running())
    @rule(who=who, crash=crash, back=pick, kind=st.none() | kinds, owed_to=owed_to)
    def complete(
        self, who: int, crash: Moment | None, back: int, kind: str | None, owed_to: tuple[str, ...]
    ) -> None:
        turn, final = self.turn(back), None if kind is None else self.some(kind)
        self.processes.step(
            who,
            crash,
            lambda db: db.turns.complete(turn, final, providers=owed_to),
            lambda: self.model.complete(turn, final, owed_to),
        )

    @precondition(lambda self: self.model.any_running())
    @rule(who=who, crash=crash, back=pick, kinds=st.lists(kinds, max_size=2), failed=st.booleans())
    def stop(self, who: int, crash: Moment | None, back: int, kinds: list[str], failed: bool) -> None:
        turn, messages = self.turn(back), [self.some(kind) for kind in kinds]

        def call(db: SessionDB) -> None:
            end = db.turns.fail if failed else db.turns.interrupt
            end(turn, "why", messages)

        state = "failed" if failed else "interrupted"
        self.processes.step(who, crash, call, lambda: self.model.stop(turn, state, "why", messages))

    # the processes and the clock

    @rule(who=who, seconds=st.integers(1, 60))
    def restart_after_a_while(self, who: int, seconds: int) -> None:
        self.database.clock.advance(seconds)
        self.processes.restart(who)

    @rule(who=who, back=pick)
    def travel(self, who: int, back: int) -> None:
        lines = self.processes.db(who).export_session(self.session(back).id)
        with SessionDB(":memory:") as elsewhere:
            imported = elsewhere.import_session(lines)
            assert imported == self.model.lineage(self.session(back).id)
            assert elsewhere.export_session(imported[-1]) == lines
            assert elsewhere.check() == []

    # what must hold after every step, whichever process looks

    @invariant()
    def transcripts_are_as_they_should_be(self) -> None:
        db = self.processes.db(len(self.model.turns) % PROCESSES)
        for session in self.model.sessions.values():
            stored = db.sessions.read(session.id)
            assert [each.seq for each in stored] == list(range(len(session.lines)))
            assert [(each.message, each.turn_id, each.carried) for each in stored] == [
                (line.message, line.turn_id, line.carried) for line in session.lines
            ]
            row = db.get_session(session.id)
            assert row is not None
            assert (row.parent, row.relation) == (session.parent, session.relation)
            assert (row.end_reason, row.committed_generation) == (session.end_reason, session.committed)
            assert row.generation == len(self.model.completed(session.id))
            assert db.sessions.live_end(session.id) == self.model.live_end(session.id)
            assert db.sessions.lineage(session.id) == self.model.lineage(session.id)
            assert sorted(db.children(session.id)) == sorted(
                each.id for each in self.model.sessions.values() if each.parent == session.id
            )
        assert db.sessions.uncommitted() == sorted(
            each.id
            for each in self.model.sessions.values()
            if each.committed < len(self.model.completed(each.id))
        )

    @invariant()
    def the_list_is_as_it_should_be(self) -> None:
        listed = self.processes.db(0).conversations.list(limit=None)
        assert {
            each.session.id: (each.root_id, each.session.title, each.pinned) for each in listed
        } == self.model.listed()

    @invariant()
    def turns_are_as_they_should_be(self) -> None:
        db = self.processes.db(len(self.model.words) % PROCESSES)
        for turn in self.model.turns.values():
            row = db.turns.get(turn.id)
            assert row is not None
            assert (row.session_id, row.state) == (turn.session_id, turn.state)
            assert (row.reason, row.generation) == (turn.reason, turn.generation)
            assert db.turns.messages(turn.id) == turn.messages
        running = {each.id for each in self.model.turns.values() if each.state == "running"}
        assert {each.id for each in db.turns.unfinished()} == running
        owed = db.outbox.list("owed", limit=EVERYTHING)
        assert sorted((each.turn_id, each.provider, each.session_id) for each in owed) == sorted(
            (turn.id, provider, turn.session_id)
            for turn in self.model.turns.values()
            for provider in turn.providers
        )

    @invariant()
    def every_word_waits_or_was_taken_once_or_withdrawn(self) -> None:
        db = self.processes.db(len(self.model.sessions) % PROCESSES)
        for word in self.model.words.values():
            row = db.inbox.get(word.id)
            assert row is not None
            assert (row.session_id, row.state, row.turn_id) == (
                word.session_id,
                word.state,
                word.turn_id,
            )
            assert row.message == word.message
        for session in self.model.sessions.values():
            found = [each.id for each in db.inbox.waiting(session.id)]
            assert found == [each.id for each in self.model.waiting(session.id)]
        assert db.inbox.sessions() == sorted(
            {each.session_id for each in self.model.words.values() if each.state == "waiting"}
        )
