"""The recall lane: one daemon thread per provider for recalls, searches and tools, each with a deadline.

An answer that comes too late is kept for the next turn of its session. While a call is past its deadline,
the provider is skipped.
"""

import functools
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.core.contract import Clock
from holdfast.core.error_text import error_text
from holdfast.core.errors import MemoryClosed, ProviderUnavailable
from holdfast.memory.bounds import NOTE_CHARACTERS, RECALL_CHARACTERS, BoundedText, bound_text
from holdfast.memory.contract import CLOSED, ConcurrentRecall, RecallAnswer
from holdfast.memory.provider_gate import GatedProvider, refused_answer
from holdfast.sessions.contract import OWNER

logger = logging.getLogger(__name__)

MAX_ANSWERS = 256
MAX_WAITING = 64


@dataclass(slots=True, eq=False)
class _RecallCall:
    """One call into the provider and its answer."""

    what: str
    call: Callable[[], Any]
    deadline: float
    session_id: str = ""
    """The session of a recall, whose answer is kept for it; other answers go to the caller only."""
    query: str = ""
    scope: str = OWNER
    for_next_turn: bool = False
    generation: int = 0
    """How often something was forgotten before the call."""
    answer: "Future[Any]" = field(default_factory=Future)


class RecallLane:
    """Runs the recalls, searches and tools of one provider on one thread."""

    def __init__(self, gated: GatedProvider, clock: Clock, ready: threading.Event) -> None:
        self.name = gated.name
        self.last_error: str | None = None
        self._gate = gated.gate
        self._gated = gated
        self._clock = clock
        self._ready = ready
        self._changed = threading.Condition()  # guards the fields below
        self._waiting: list[_RecallCall] = []
        self._current: _RecallCall | None = None
        self._begun: dict[_RecallCall, None] = {}  # with the provider, which answers several at a time
        self._answers: OrderedDict[tuple[str, str], BoundedText] = OrderedDict()
        self._late: OrderedDict[str, BoundedText] = OrderedDict()
        self._generation = 0
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"memory-recall-{self.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_stuck(self) -> bool:
        """Whether a call is past its deadline."""
        with self._changed:
            return self._is_stuck()

    def hint(self, query: str, session_id: str, timeout: float, scope: str) -> None:
        """Recall in advance for the next turn of the session, unless the provider is quick anyway."""

        def call() -> BoundedText:
            self._gated.of(scope).queue_prefetch(query, session_id=session_id)
            return self._prefetched(query, session_id, scope)

        if isinstance(self._gated.provider, ConcurrentRecall):
            return
        deadline = self._clock.monotonic() + timeout
        self._enqueue(
            _RecallCall("queue_prefetch", call, deadline, session_id, query, scope, for_next_turn=True)
        )

    def ask(self, query: str, session_id: str, timeout: float, scope: str) -> "Future[Any] | None":
        """Start a recall; None when the provider is stuck or the queue is full."""
        with self._changed:
            known = self._answers.pop((session_id, query), None)
            if known is not None:
                answered: Future[Any] = Future()
                answered.set_result(known)
                return answered
            if self._is_stuck():
                return None
        deadline = self._clock.monotonic() + timeout
        call = functools.partial(self._prefetched, query, session_id, scope)
        question = _RecallCall("prefetch", call, deadline, session_id, query, scope)
        return question.answer if self._enqueue(question) else None

    def _prefetched(self, query: str, session_id: str, scope: str) -> BoundedText:
        found = self._gated.of(scope).prefetch(query, session_id=session_id)
        return bound_text(found, RECALL_CHARACTERS, "prefetch")

    def late_answer(self, session_id: str) -> BoundedText:
        """The answer that came too late for the last turn of the session; returned once."""
        with self._changed:
            return self._late.pop(session_id, BoundedText(""))

    def call(self, what: str, call: Callable[[], Any], timeout: float) -> "Future[Any]":
        """Queue any other call; its answer is an error when the lane is stuck, full or closed."""
        with self._changed:
            if self._closed:
                return refused_answer(MemoryClosed(self.name))
            if self._is_stuck():
                problem = "it has not answered an earlier call yet"
                return refused_answer(ProviderUnavailable(self.name, problem=problem))
        question = _RecallCall(what, call, self._clock.monotonic() + timeout)
        if not self._enqueue(question):
            problem = "too many calls wait for it already"
            return refused_answer(ProviderUnavailable(self.name, problem=problem))
        return question.answer

    def forget(self, session_id: str) -> None:
        """Drop the answers of a session that has ended."""
        with self._changed:
            self._late.pop(session_id, None)
            for key in [key for key in self._answers if key[0] == session_id]:
                del self._answers[key]

    def forget_all(self) -> None:
        """Drop all answers, also those of calls in progress: something in them was forgotten."""
        with self._changed:
            self._generation += 1
            self._late.clear()
            self._answers.clear()

    @property
    def has_kept_answers(self) -> bool:
        """Whether an answer waits for the next turn of its session."""
        with self._changed:
            return bool(self._answers or self._late)

    def wait_idle(self, timeout: float) -> bool:
        with self._changed:
            return self._changed.wait_for(
                lambda: self._current is None and not self._waiting and not self._begun, timeout
            )

    def close(self) -> None:
        """Start no more calls. A call in progress is not interrupted."""
        with self._changed:
            self._closed = True
            dropped, self._waiting = self._waiting, []
            self._changed.notify_all()
        for question in dropped:
            if question.answer.cancel():
                question.answer.set_running_or_notify_cancel()  # wakes the thread that waits for it

    def _is_stuck(self) -> bool:
        oldest = self._current or next(iter(self._begun or self._waiting), None)
        return oldest is not None and self._clock.monotonic() > oldest.deadline

    def _enqueue(self, question: _RecallCall) -> bool:
        with self._changed:
            if len(self._waiting) >= MAX_WAITING:
                self._waiting = [each for each in self._waiting if not each.answer.cancelled()]
            if self._closed or len(self._waiting) >= MAX_WAITING:
                return False
            question.generation = self._generation
            self._waiting.append(question)
            self._changed.notify_all()
        return True

    def _run(self) -> None:
        self._ready.wait()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting) or self._closed)
                if self._closed:
                    return
                question = self._current = self._waiting.pop(0)
            self._answer(question)
            with self._changed:
                self._current = None
                self._changed.notify_all()

    def _answer(self, question: _RecallCall) -> None:
        if not question.answer.set_running_or_notify_cancel():
            return
        try:
            left = question.deadline - self._clock.monotonic()
            if question.what == "prefetch" and isinstance(self._gated.provider, ConcurrentRecall):
                begin = functools.partial(self._begin, question)
                begun = self._gate.run(question.what, left, begin)
                with self._changed:
                    self._begun[question] = None
                begun.add_done_callback(functools.partial(self._answered, question))
                return
            result = self._gate.run(question.what, left, question.call)
        except BaseException as error:  # noqa: BLE001 - passed on to the caller
            self._failed(question, error)
            return
        self._give(question, result)

    def _begin(self, question: _RecallCall) -> "Future[RecallAnswer]":
        provider = self._gated.of(question.scope)
        if isinstance(provider, ConcurrentRecall):
            return provider.begin_prefetch(question.query, session_id=question.session_id)
        found: Future[RecallAnswer] = Future()
        found.set_result(RecallAnswer(provider.prefetch(question.query, session_id=question.session_id)))
        return found

    def _answered(self, question: _RecallCall, answer: "Future[RecallAnswer]") -> None:
        """The provider has answered, on a thread of its own."""
        try:
            given = answer.result()
            text = bound_text(given.text, RECALL_CHARACTERS, "begin_prefetch")
            note = bound_text(given.note, NOTE_CHARACTERS, "begin_prefetch")
            self._give(question, replace(text, note=note.text))
        except BaseException as error:  # noqa: BLE001 - passed on to the caller
            self._failed(question, error)
        finally:
            with self._changed:
                self._begun.pop(question, None)
                self._changed.notify_all()

    def _give(self, question: _RecallCall, result: Any) -> None:  # noqa: ANN401 - any result
        if question.session_id:
            self._cache(question, result)
        question.answer.set_result(result)

    def _failed(self, question: _RecallCall, error: BaseException) -> None:
        if not isinstance(error, CLOSED):
            logger.warning("memory.recall_failed", exc_info=error, extra={"provider": self.name})
        self.last_error = error_text(error)
        question.answer.set_exception(error)

    def _cache(self, question: _RecallCall, result: BoundedText) -> None:
        with self._changed:
            if question.generation != self._generation:
                return
            late = self._clock.monotonic() > question.deadline
            if late or question.for_next_turn:
                self._answers[question.session_id, question.query] = result
                if result.text:
                    self._late[question.session_id] = result
            for kept in (self._answers, self._late):
                while len(kept) > MAX_ANSWERS:
                    kept.popitem(last=False)
