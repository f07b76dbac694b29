"""The open questions of a session: approvals and questions that wait for a person's answer.

A question is closed exactly once: by an answer, by a timeout (which means no), or by an interrupt. `answer`
returns whether the answer was accepted, so that a surface can keep a late answer as the next message (I5).
"""

import asyncio
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from holdfast.core.errors import InvalidInput
from holdfast.core.events import ApprovalAsked, AskClosed, Emit, QuestionAsked
from holdfast.core.ids import new_id
from holdfast.tools.approval import AllowRule, ApprovalPolicy, is_covered, mark_destructive
from holdfast.tools.contract import NOBODY_THERE, NOT_ALLOWED, ApprovalRequest

AskEvent = ApprovalAsked | QuestionAsked
ApprovalAnswer = Literal["yes", "always", "no"]
NOBODY = "nobody"
"""The answer of a surface without a person; it means no."""
APPROVAL_ANSWERS: dict[str, ApprovalAnswer] = {
    **dict.fromkeys(("yes", "y", "ok", "allow", "once"), "yes"),
    **dict.fromkeys(("no", "n", "deny", "refuse"), "no"),
    "always": "always",
    NOBODY: "no",
}
NO_ANSWER = "Nobody is there to answer."
"""The same for a question."""
ASK_SECONDS = 600.0
ALWAYS_REFUSED = "the setting tools.approval is always-refuse"
OWNER_ONLY = "it is refused to everybody but the owner"
ONLY_ONCE = "This is asked about each time, so it can be allowed only once."


@dataclass(frozen=True, slots=True)
class CallIds:
    """The session, turn and call that ask."""

    session_id: str
    turn_id: str
    call_id: str


@dataclass(frozen=True, slots=True)
class _PendingAsk:
    asked: AskEvent
    loop: asyncio.AbstractEventLoop
    answer: "asyncio.Future[str]"


def parse_approval(text: str) -> tuple[ApprovalAnswer, str] | None:
    """Parse an answer to an approval: yes, no, or always with an optional pattern; None for other texts."""
    first, _, rest = text.strip().partition(" ")
    word = APPROVAL_ANSWERS.get(first.lower())
    if word is None or (rest.strip() and word != "always"):
        return None
    return word, rest.strip()


def is_answer(asked: AskEvent, text: str) -> bool:
    """Whether a text answers a question; raises `InvalidInput` for an "always" that would have no effect."""
    if isinstance(asked, QuestionAsked):
        return True
    approval = parse_approval(text)
    if approval is not None and approval[0] not in asked.decisions:
        raise InvalidInput(f"{ONLY_ONCE} Answer yes or no; the question is still open.")
    return approval is not None


def match_choice(text: str, choices: Sequence[str]) -> str:
    """The choice that an answer names, by its text or its number; or else the answer itself."""
    word = text.strip()
    if word in choices:
        return word
    return choices[int(word) - 1] if word.isdecimal() and 1 <= int(word) <= len(choices) else text


class AskStore(Protocol):
    """Stores open questions, so that other processes can answer them."""

    async def opened(self, asked: AskEvent) -> None: ...

    async def closed(self, ask_id: str) -> str | None:
        """Accept no more answers; returns the answer that was accepted before, if there is one."""
        ...


class OpenQuestions:
    """The open questions of one session. `ask` runs on the turn's loop; any thread may call `answer`.

    With a `record`, an answer is stored there first and then passed to `answer`.
    """

    def __init__(self, seconds: float = ASK_SECONDS, record: AskStore | None = None) -> None:
        self.seconds = seconds
        self._record = record
        self._lock = threading.Lock()  # guards _open and _granted
        self._open: dict[str, _PendingAsk] = {}
        self._granted: dict[AllowRule, str] = {}

    async def ask(self, asked: AskEvent, emit: Emit) -> str | None:
        """Show the question and wait for its answer; None after the timeout."""
        if self._record is not None:
            await self._record.opened(asked)
        loop = asyncio.get_running_loop()
        ask = _PendingAsk(asked, loop, loop.create_future())
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

    async def _wait(self, ask: _PendingAsk) -> str | None:
        try:
            async with asyncio.timeout(ask.asked.seconds):
                return await asyncio.shield(ask.answer)
        except TimeoutError:
            if self._close(ask.asked.ask_id):
                return None if self._record is None else await self._record.closed(ask.asked.ask_id)
            # An answer was accepted before the timeout, and arrives on this loop in a moment.
            return await ask.answer

    def answer(self, ask_id: str, text: str) -> bool:
        """Answer a question.

        False when it is already closed, or when the text is no answer to an approval.
        """
        with self._lock:
            ask = self._open.get(ask_id)
            if ask is None or not is_answer(ask.asked, text):
                return False
            del self._open[ask_id]
        try:
            ask.loop.call_soon_threadsafe(_set_answer, ask.answer, text)
        except RuntimeError:  # the loop is closed, so the turn has ended
            return False
        return True

    def open(self) -> list[AskEvent]:
        """The questions that wait for an answer, the oldest first: for a surface that connects later."""
        with self._lock:
            return [each.asked for each in self._open.values()]

    def grant(self, rule: AllowRule, call_id: str) -> None:
        """Add a rule, given in this tool call, for the rest of this session."""
        with self._lock:
            self._granted[rule] = call_id

    def granted(self) -> tuple[AllowRule, ...]:
        with self._lock:
            return tuple(self._granted)

    def keep_grants(self, left: "OpenQuestions", calls: Collection[str]) -> None:
        """Add the rules that were given in these tool calls in the session that this one continues."""
        with left._lock:  # noqa: SLF001 - another one of this class
            granted = dict(left._granted)  # noqa: SLF001
        with self._lock:
            self._granted |= {rule: call_id for rule, call_id in granted.items() if call_id in calls}

    def _close(self, ask_id: str) -> bool:
        with self._lock:
            return self._open.pop(ask_id, None) is not None


def _set_answer(answer: "asyncio.Future[str]", text: str) -> None:
    if not answer.done():
        answer.set_result(text)


def _refusal_reason(text: str | None) -> str:
    if text is None:
        return "nobody answered in time"
    return NOBODY_THERE if text == NOBODY else NOT_ALLOWED


@dataclass(frozen=True, slots=True)
class PersonBehindPolicy:
    """The person for one tool call. The policy decides first, and asks the person only when needed."""

    policy: ApprovalPolicy
    questions: OpenQuestions
    emit: Emit
    ids: CallIds
    refusals: list[str] = field(default_factory=list)
    """The reasons why requests of this call were refused."""

    @property
    def refusal(self) -> str:
        """The last of them."""
        return self.refusals[-1] if self.refusals else ""

    async def approve(self, request: ApprovalRequest) -> bool:
        """Whether the request is allowed.

        "always" also allows later requests, by the pattern after the word.
        """
        known = mark_destructive(request)
        decision = self.policy.decide(known, self.questions.granted())
        if decision != "ask":
            self.refusals.append(self._why_refused())
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
                decisions=known.decisions,
            ),
            self.emit,
        )
        approval = None if text is None else parse_approval(text)
        self.refusals.append(_refusal_reason(text))
        if approval is None:
            return False
        word, pattern = approval
        if word == "always":
            self._grant_always(known, pattern)
        return word != "no"

    def _why_refused(self) -> str:
        if self.policy.fenced:
            return OWNER_ONLY
        return ALWAYS_REFUSED if self.policy.attended else NOBODY_THERE

    def _grant_always(self, request: ApprovalRequest, pattern: str) -> None:
        wider = AllowRule(request.kind, pattern) if pattern else None
        # A pattern that does not match the request itself is a mistake; then only this request is allowed.
        fits = wider is not None and is_covered(
            request, (*self.policy.allow, *self.questions.granted(), wider)
        )
        rule = wider if wider is not None and fits else AllowRule.exactly(request)
        self.questions.grant(rule, self.ids.call_id)

    async def answer(self, question: str, choices: Sequence[str] = ()) -> str | None:
        """The person's answer, or the choice that it names."""
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
        return None if text is None else match_choice(text, choices)
