"""A fake model: gives the answers of the test and records the requests."""

import json
from collections.abc import Callable

from holdfast.core.errors import ModelUnreachable


class FakeModel:
    """`complete` for a provider. `fails` makes it unreachable; `before` may block."""

    def __init__(self, *facts: str) -> None:
        self.facts = list(facts)
        self.asked: list[str] = []
        self.sessions: list[str | None] = []
        self.fails = False
        self.answer: str | None = None
        self.before: Callable[[], object] = lambda: None

    def __call__(self, system: str, text: str, *, session_id: str | None = None) -> str:
        self.sessions.append(session_id)
        self.asked.append(text)
        self.before()
        if self.fails:
            raise ModelUnreachable("fake", "it is down")
        if self.answer is not None:
            return self.answer
        return json.dumps({"facts": [{"content": fact, "category": "general"} for fact in self.facts]})
