"""The kill test's writer: turns, words, loose messages and rotations, without end.

Everything it stores carries its own name and a number, and it says so after each call that returned. A
new life of the same writer first ends the turn that its last life left running.
"""

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from holdfast.core.contract import Message
from holdfast.core.errors import AlreadyContinued, SessionEnded
from holdfast.sessions import SessionDB

PROVIDERS = ("alpha", "beta")
OPENING = 3
KEPT = 4

Say = Callable[[object], None]


def opening_of(child: str) -> list[Message]:
    """What a rotated session must start with, whole."""
    return [{"role": "system", "content": f"{child} opening {at}"} for at in range(OPENING)]


def write_for_ever(db: SessionDB, name: str, own: str, shared: str, say: Say) -> None:
    life = Life(db, name, own, shared, say)
    life.recover()
    steps = (life.speak, life.put, life.take_a_turn, life.rotate_own, life.rotate_shared)
    weights = (30, 20, 35, 8, 7)
    while True:
        (step,) = life.random.choices(steps, weights)
        step()


class Life:
    """One life of a writer."""

    def __init__(self, db: SessionDB, name: str, own: str, shared: str, say: Say) -> None:
        self.db = db
        self.name = name
        self.own = own
        self.shared = shared
        self.say = say
        self.random = random.Random(name)
        self.number = 0

    def fresh(self, what: str) -> str:
        self.number += 1
        return f"{self.name} {what} {self.number}"

    def recover(self) -> None:
        left = self.db.turns.running(self.db.sessions.live_end(self.own))
        if left is not None:
            self.db.turns.interrupt(left.id, "its process died")
            self.say(["stopped", left.id])

    def speak(self) -> None:
        text = self.fresh("said")
        while True:
            try:
                self.db.sessions.append_message(self.db.sessions.live_end(self.shared), user(text))
                break
            except SessionEnded:
                continue
        self.say(["said", text])

    def put(self) -> None:
        text = self.fresh("put")
        session = self.random.choice([self.own, self.shared])
        word = self.db.inbox.put(session, user(text), key=text)
        self.say(["put", text, word.id])

    def take_a_turn(self) -> None:
        session = self.db.sessions.live_end(self.own)
        turn = self.fresh("turn")
        waiting = self.db.inbox.waiting(session, limit=1)
        if waiting:
            self.db.turns.open(session, take=waiting[0].id, turn_id=turn)
            self.say(["took", turn, waiting[0].id])
        else:
            self.db.turns.open(session, user(f"{turn} asked"), turn_id=turn)
            self.say(["step", turn, f"{turn} asked"])
        for _ in range(self.random.randint(0, 3)):
            text = self.fresh("step")
            self.db.turns.append(turn, [user(text)])
            self.say(["step", turn, text])
        if self.random.random() < 0.2:
            self.rotate_own()
        if self.random.random() < 0.8:
            text = f"{turn} answered"
            self.db.turns.complete(turn, user(text), providers=PROVIDERS)
            self.say(["completed", turn, text])
        else:
            self.db.turns.interrupt(turn, "enough")
            self.say(["stopped", turn])

    def rotate_own(self) -> None:
        self.rotate(self.own)

    def rotate_shared(self) -> None:
        # Another writer may come first.
        with suppress(AlreadyContinued, SessionEnded):
            self.rotate(self.shared)

    def rotate(self, session: str) -> None:
        parent, child = self.db.sessions.live_end(session), self.fresh("child")
        seen = len(self.db.sessions.read(parent))
        self.db.rotate(parent, child, opening_of(child), carry_from=max(0, seen - KEPT))
        self.say(["rotated", parent, child])


def user(text: str) -> Message:
    return {"role": "user", "content": text}


Word = list[Any]
"""One thing a writer said: what it did, and to what."""
