"""The open asks of a session: what the agent waits for a person to say, and how their word gets in.

An ask is closed exactly once: by an answer, by its time running out (which means no), or by an interrupt.
`answer` says whether the word counted, so that a surface can park what came too late as the next input (I5).
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from holdfast.core.events import ApprovalAsked, AskClosed, Event, QuestionAsked
from holdfast.core.ids import new_id
from holdfast.tools.approval import AllowRule, ApprovalPolicy, covered, weighed
from holdfast.tools.contract import ApprovalRequest

Emit = Callable[[Event], None]
Asked = ApprovalAsked | QuestionAsked
Word = Literal["yes", "always", "no"]
WORDS: dict[str, Word] = {
    **dict.fromkeys(("yes", "y", "ok", "allow", "once"), "yes"),
    **dict.fromkeys(("no", "n", "deny", "refuse"), "no"),
    "always": "always",
}
ASK_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class CallIds:
    """Which call of which turn asks."""

    session_id: str
    turn_id: str
    call_id: str


@dataclass(frozen=True, slots=True)
class _Open:
    asked: Asked
    loop: asyncio.AbstractEventLoop
    answer: "asyncio.Future[str]"


def approval_word(text: str) -> tuple[Word, str] | None:
    """An answer to an approval: yes, no, or always, with the pattern that may follow it; None for others."""
    first, _, rest = text.strip().partition(" ")
    word = WORDS.get(first.lower())
    if word is None or (rest.strip() and word != "always"):
        return None
    return word, rest.strip()


def chosen(text: str, choices: Sequence[str]) -> str:
    """The choice that an answer names or numbers, else the answer as it is."""
    word = text.strip()
    if word in choices:
        return word
    return choices[int(word) - 1] if word.isdecimal() and 1 <= int(word) <= len(choices) else text


class Record(Protocol):
    """Where asks are written down, for whoever may answer them from elsewhere."""

    async def opened(self, asked: Asked) -> None: ...

    async def closed(self, ask_id: str) -> str | None:
        """Take no more answers; returns the one that was accepted before."""
        ...


class OpenQuestions:
    """One per session. `ask` is awaited on the turn's loop; `answer` may come from any thread.

    With a `record`, an answer is written down there first, and then told here.
    """

    def __init__(self, seconds: float = ASK_SECONDS, record: Record | None = None) -> None:
        self.seconds = seconds
        self._record = record
        self._lock = threading.Lock()  # guards _open and _granted
        self._open: dict[str, _Open] = {}
        self._granted: tuple[AllowRule, ...] = ()

    async def ask(self, asked: Asked, emit: Emit) -> str | None:
        """Show the ask and wait for its answer; None when its time ran out."""
        if self._record is not None:
            await self._record.opened(asked)
        loop = asyncio.get_running_loop()
        ask = _Open(asked, loop, loop.create_future())
        with self._lock:
            self._open[asked.ask_id] = ask
        outcome = "interrupted"
        try:
            emit(asked)
            text = await self._wait(ask)
            outcome = "no answer in time" if text is None else f"answered: {text}"
            return text
        finally:
            self._close(asked.ask_id)
            emit(
                AskClosed(
                    session_id=asked.session_id, turn_id=asked.turn_id, ask_id=asked.ask_id, outcome=outcome
                )
            )

    async def _wait(self, ask: _Open) -> str | None:
        try:
            async with asyncio.timeout(ask.asked.seconds):
                return await asyncio.shield(ask.answer)
        except TimeoutError:
            if self._close(ask.asked.ask_id):
                return None if self._record is None else await self._record.closed(ask.asked.ask_id)
            # An answer was accepted before the time ran out; it is on its way to this loop.
            return await ask.answer

    def answer(self, ask_id: str, text: str) -> bool:
        """Settle an ask. False when it is closed already, or when the text is no answer to an approval."""
        with self._lock:
            ask = self._open.get(ask_id)
            if ask is None or (isinstance(ask.asked, ApprovalAsked) and approval_word(text) is None):
                return False
            del self._open[ask_id]
        try:
            ask.loop.call_soon_threadsafe(_settle, ask.answer, text)
        except RuntimeError:  # the loop is closed, and the turn with it
            return False
        return True

    def open(self) -> list[Asked]:
        """What waits for an answer now, oldest first: for a surface that was not there when it was asked."""
        with self._lock:
            return [each.asked for each in self._open.values()]

    def grant(self, rule: AllowRule) -> None:
        """Allow what the rule covers for the rest of this session."""
        with self._lock:
            if rule not in self._granted:
                self._granted = (*self._granted, rule)

    def granted(self) -> tuple[AllowRule, ...]:
        with self._lock:
            return self._granted

    def _close(self, ask_id: str) -> bool:
        with self._lock:
            return self._open.pop(ask_id, None) is not None


def _settle(answer: "asyncio.Future[str]", text: str) -> None:
    if not answer.done():
        answer.set_result(text)


@dataclass(frozen=True, slots=True)
class AskingPerson:
    """The person at the other end of one call, behind the policy."""

    policy: ApprovalPolicy
    questions: OpenQuestions
    emit: Emit
    ids: CallIds

    async def approve(self, request: ApprovalRequest) -> bool:
        """Whether it may be done. "always" covers this request, or the pattern that follows the word."""
        known = weighed(request)
        decision = self.policy.decide(known, self.questions.granted())
        if decision != "ask":
            return decision == "allow"
        text = await self.questions.ask(
            ApprovalAsked(
                session_id=self.ids.session_id,
                turn_id=self.ids.turn_id,
                call_id=self.ids.call_id,
                ask_id=new_id(),
                subject=known.subject,
                subject_kind=known.kind,
                reason=known.reason,
                destructive=known.destructive,
                seconds=self.questions.seconds,
            ),
            self.emit,
        )
        said = None if text is None else approval_word(text)
        if said is None:
            return False
        word, pattern = said
        if word == "always":
            self._remember(known, pattern)
        return word != "no"

    def _remember(self, request: ApprovalRequest, pattern: str) -> None:
        wider = AllowRule(request.kind, pattern) if pattern else None
        # A pattern that misses the very request it answers is a slip; it widens nothing.
        fits = wider is not None and covered(request, (*self.policy.allow, *self.questions.granted(), wider))
        self.questions.grant(wider if wider is not None and fits else AllowRule.exactly(request))

    async def answer(self, question: str, choices: Sequence[str] = ()) -> str | None:
        """The person's own words, or the choice that they named or numbered."""
        text = await self.questions.ask(
            QuestionAsked(
                session_id=self.ids.session_id,
                turn_id=self.ids.turn_id,
                call_id=self.ids.call_id,
                ask_id=new_id(),
                question=question,
                choices=tuple(choices),
                seconds=self.questions.seconds,
            ),
            self.emit,
        )
        return None if text is None else chosen(text, choices)
