"""The recall lane: one daemon thread per provider that answers what is asked of it, with a deadline.

An answer that comes too late is kept for its own session and used by the next turn there. While a call is
stuck past its deadline the provider is skipped, not waited for again.
"""

import functools
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from holdfast.core.contract import Clock
from holdfast.core.errors import MemoryClosed, ProviderUnavailable
from holdfast.memory.contract import ENDING, MemoryProvider

logger = logging.getLogger(__name__)

MOST_ANSWERS = 256
MOST_WAITING = 64


@dataclass(slots=True, eq=False)
class _Question:
    """One call into the provider and what came of it."""

    session_id: str
    query: str
    call: Callable[[], Any]
    deadline: float
    answer: "Future[Any] | None"
    """None for a hint: nobody waits for it, and a future costs its caller a lock."""
    recalls: bool = True
    for_next_turn: bool = False


class RecallLane:
    """Everything that is asked of one provider, on one thread."""

    def __init__(self, provider: MemoryProvider, clock: Clock, ready: threading.Event) -> None:
        self.name = provider.name
        self.last_error: str | None = None
        self.finished = threading.Event()
        self._provider = provider
        self._clock = clock
        self._ready = ready
        self._changed = threading.Condition()  # guards the fields below
        self._waiting: list[_Question] = []
        self._current: _Question | None = None
        self._answers: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._late: OrderedDict[str, str] = OrderedDict()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"memory-recall-{self.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_stuck(self) -> bool:
        """Whether a call is out past its deadline."""
        with self._changed:
            return self._is_stuck()

    def hint(self, query: str, session_id: str, timeout: float) -> None:
        """Recall this in advance, for the session's next turn."""

        def call() -> str:
            self._provider.queue_prefetch(query, session_id=session_id)
            return self._provider.prefetch(query, session_id=session_id)

        deadline = self._clock.monotonic() + timeout
        self._put(_Question(session_id, query, call, deadline, None, for_next_turn=True))

    def ask(self, query: str, session_id: str, timeout: float) -> "Future[Any] | None":
        """Ask the provider; None when it is stuck, or too much waits already."""
        with self._changed:
            known = self._answers.pop((session_id, query), None)
            if known is not None:
                answered: Future[Any] = Future()
                answered.set_result(known)
                return answered
            if self._is_stuck():
                return None
        deadline = self._clock.monotonic() + timeout
        call = functools.partial(self._provider.prefetch, query, session_id=session_id)
        return self._put(_Question(session_id, query, call, deadline, Future()))

    def late_answer(self, session_id: str) -> str:
        """What came too late for the session's last turn; given out once."""
        with self._changed:
            return self._late.pop(session_id, "")

    def call(self, call: Callable[[], Any], timeout: float) -> "Future[Any]":
        """Run any other call on the provider's reading thread; refused while that one is stuck."""
        with self._changed:
            if self._closed:
                raise MemoryClosed(self.name)
            if self._is_stuck():
                raise ProviderUnavailable(self.name, problem="it has not answered an earlier call yet")
        question = _Question("", "", call, self._clock.monotonic() + timeout, Future(), recalls=False)
        answer = self._put(question)
        if answer is None:
            raise ProviderUnavailable(self.name, problem="too many calls wait for it already")
        return answer

    def forget(self, session_id: str) -> None:
        """Drop what was recalled for a session that was left."""
        with self._changed:
            self._late.pop(session_id, None)
            for key in [key for key in self._answers if key[0] == session_id]:
                del self._answers[key]

    def wait_idle(self, timeout: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._current is None and not self._waiting, timeout)

    def close(self) -> None:
        """Ask nothing more; a call in progress is left to end by itself."""
        with self._changed:
            self._closed = True
            dropped, self._waiting = self._waiting, []
            self._changed.notify_all()
        for question in dropped:
            if question.answer is not None and question.answer.cancel():
                question.answer.set_running_or_notify_cancel()  # whoever waits for it hears of it now

    def _is_stuck(self) -> bool:
        oldest = self._current or (self._waiting[0] if self._waiting else None)
        return oldest is not None and self._clock.monotonic() > oldest.deadline

    def _put(self, question: _Question) -> "Future[Any] | None":
        with self._changed:
            if len(self._waiting) >= MOST_WAITING:
                self._waiting = [each for each in self._waiting if not _is_given_up(each)]
            if self._closed or len(self._waiting) >= MOST_WAITING:
                return None
            self._waiting.append(question)
            self._changed.notify_all()
        return question.answer

    def _run(self) -> None:
        self._ready.wait()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting) or self._closed)
                if self._closed:
                    break
                question = self._current = self._waiting.pop(0)
            self._answer(question)
            with self._changed:
                self._current = None
                self._changed.notify_all()
        self.finished.set()

    def _answer(self, question: _Question) -> None:
        answer = question.answer
        if answer is not None and not answer.set_running_or_notify_cancel():
            return
        try:
            said = question.call()
            if question.recalls:
                _require_text(said)
        except BaseException as error:
            if not isinstance(error, ENDING):
                logger.warning("memory.recall_failed", exc_info=True, extra={"provider": self.name})
            self.last_error = f"{type(error).__name__}: {error}"
            if answer is not None:
                answer.set_exception(error)
            return
        if question.recalls:
            self._keep(question, said)
        if answer is not None:
            answer.set_result(said)

    def _keep(self, question: _Question, said: str) -> None:
        with self._changed:
            late = self._clock.monotonic() > question.deadline
            if said and (late or question.for_next_turn):
                self._late[question.session_id] = said
            if late or question.for_next_turn:
                self._answers[question.session_id, question.query] = said
            for kept in (self._answers, self._late):
                while len(kept) > MOST_ANSWERS:
                    kept.popitem(last=False)


def _is_given_up(question: _Question) -> bool:
    return question.answer is not None and question.answer.cancelled()


def _require_text(said: object) -> None:
    if not isinstance(said, str):
        raise TypeError(f"prefetch returned {type(said).__name__}, not text")
