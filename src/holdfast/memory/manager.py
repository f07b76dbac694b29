"""`MemoryManager`: any number of providers, each with a write lane and a recall lane of its own.

Handing over returns at once; the lanes do the work. With `store=` what is handed over is on disk when the
call returns and survives the process; without one the same code runs on a store in memory.
"""

import atexit
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for_all
from copy import deepcopy
from functools import partial
from typing import Any

from holdfast.core.clock import SystemClock
from holdfast.core.contract import Clock, Message
from holdfast.core.errors import (
    BoundaryFailed,
    HoldfastError,
    InvalidInput,
    ProviderInvalid,
)
from holdfast.core.events import RecalledFrom
from holdfast.memory import looking
from holdfast.memory.contract import MemoryProvider, ProviderStatus
from holdfast.memory.delivery import takes
from holdfast.memory.lanes import Lanes
from holdfast.memory.looking import Searched
from holdfast.memory.retry import RetryPolicy
from holdfast.process import ShutdownBudget
from holdfast.sessions import SessionDB
from holdfast.sessions.codec import checked_name

logger = logging.getLogger(__name__)

DRAIN_SECONDS = 5.0
RECALL_SECONDS = 2.0
# Less than a lifecycle waits for a commit, so that the provider that is late is named.
BOUNDARY_SECONDS = 4.0
KEEP_CLAIMS_SECONDS = 5.0
MEMORY = ":memory:"


class MemoryManager:
    """Hands turns to memory providers and asks them, without ever waiting for one that is slow."""

    def __init__(
        self,
        store: SessionDB | None = None,
        *,
        clock: Clock | None = None,
        policy: RetryPolicy | None = None,
        drain_seconds: float = DRAIN_SECONDS,
        recall_seconds: float = RECALL_SECONDS,
    ) -> None:
        self._given = store
        self._store = store
        self._clock = clock or SystemClock()
        self._policy = policy or RetryPolicy()
        self._drain_seconds = drain_seconds
        self._recall_seconds = recall_seconds
        self._lock = threading.Lock()  # guards _lanes, _names, _store and _closed
        self._lanes: dict[str, Lanes] = {}
        self._names: tuple[str, ...] = ()
        self._closed = False
        self._stop = threading.Event()

    @property
    def provider_names(self) -> tuple[str, ...]:
        """Whom a completed turn is owed to."""
        return self._names

    def add_provider(self, provider: MemoryProvider, *, session_id: str = "", **kwargs: Any) -> None:  # noqa: ANN401
        """Give a provider its lanes. What it is owed from earlier is delivered from now on."""
        # Once and for all: a turn that is handed over in a hurry has no time for it.
        checked_name("a provider's name", provider.name)
        with self._lock:
            if provider.name in self._lanes:
                raise ProviderInvalid(provider.name, "there is one of that name already")
            if self._store is None:
                self._store = SessionDB(MEMORY, clock=self._clock)
            first = not self._lanes
            lanes = Lanes(provider, self._store, self._clock, self._policy)
            self._lanes = {**self._lanes, provider.name: lanes}
            self._names = tuple(self._lanes)
        lanes.start(session_id, kwargs)
        if first:
            atexit.register(self._at_exit)
            threading.Thread(target=self._keep_claims, name="memory-claims", daemon=True).start()

    # handing over

    def sync_all(
        self,
        user: "str | list[dict[str, Any]] | None",
        assistant: "str | list[dict[str, Any]] | None",
        *,
        session_id: str,
        messages: Sequence[Message] | None = None,
    ) -> None:
        """Record a completed turn and owe it to every provider; on disk when this returns."""
        if not self._lanes or self._store is None:
            return
        if isinstance(user, str) and isinstance(assistant, str):
            self._store.turns.record_exchange(
                session_id, (user, assistant), providers=self._names, handover=messages, then=self.wake
            )
            return
        # Parts, or nothing at all: they may be refused, and that is for the caller to hear.
        turn: list[Message] = [
            {"role": "user", "content": user},
            {"role": "assistant", "content": assistant},
        ]
        self._store.turns.record(session_id, turn, providers=self._names, handover=messages, then=self.wake)

    def wake(self) -> None:
        """A turn was completed in the store and is owed to memory."""
        for lanes in self._lanes.values():
            lanes.writes.wake()

    def queue_prefetch_all(self, query: str, *, session_id: str) -> None:
        """Let every provider recall in advance what the session's next turn may need."""
        for lanes in self._lanes.values():
            lanes.recalls.hint(query, session_id, self._recall_seconds)

    # asking

    def prefetch_all(self, query: str, *, session_id: str, timeout: float | None = None) -> str:
        """What is remembered about the query, from every provider that answers in time."""
        return together(self.recall_all(query, session_id=session_id, timeout=timeout))

    def recall_all(
        self, query: str, *, session_id: str, timeout: float | None = None
    ) -> tuple[RecalledFrom, ...]:
        """The same, provider by provider, with what became of each question."""
        limit = self._recall_seconds if timeout is None else timeout
        asked = [(lanes, lanes.recalls.ask(query, session_id, limit)) for lanes in self._lanes.values()]
        wait_for_all([answer for _, answer in asked if answer is not None], limit)
        return tuple(_recalled(lanes, answer, session_id) for lanes, answer in asked)

    def system_prompt_block(self) -> str:
        """What the providers add to the system prompt."""
        blocks = [lanes.ask_now(lanes.provider.system_prompt_block, "") for lanes in self._lanes.values()]
        return "\n\n".join(block for block in blocks if block)

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """The tools of every provider."""
        return [schema for lanes in self._lanes.values() for schema in lanes.tools()]

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], *, timeout: float = 60.0) -> str:
        """Run a provider's tool; blocks its caller, who is a tool of the agent."""
        for lanes in self._lanes.values():
            if tool_name in lanes.tool_names():
                call = partial(lanes.provider.handle_tool_call, tool_name, args)
                return str(lanes.recalls.call(call, timeout).result(timeout))
        raise ProviderInvalid("memory", f"no provider has a tool {tool_name!r}")

    def search(self, query: str, *, provider: str = "", limit: int = 20, timeout: float = 10.0) -> Searched:
        """What the providers have on this, for a person to read; blocks its caller.

        One that does not answer keeps nothing back of what the others have; raises when none answers.
        """
        lanes = {provider: self._named(provider)} if provider else dict(self._lanes)
        asked = {
            name: looking.asked(each.recalls, partial(looking.search, each.provider, query, limit), timeout)
            for name, each in lanes.items()
        }
        wait_for_all(asked.values(), timeout)
        return looking.gathered(asked)

    def forget(self, provider: str, memory_id: str, *, timeout: float = 30.0) -> bool:
        """Remove something from a provider's memory for good; False when it has nothing with that id."""
        lanes = self._named(provider)
        answer = lanes.recalls.call(partial(looking.forget, lanes.provider, memory_id), timeout)
        wait_for_all([answer], timeout)
        return bool(looking.outcome(provider, answer))

    def _named(self, provider: str) -> Lanes:
        if provider not in self._lanes:
            raise InvalidInput(f"there is no memory provider {provider!r}; there is {', '.join(self._lanes)}")
        return self._lanes[provider]

    # boundaries

    def on_session_end(
        self, messages: Sequence[Message], *, session_id: str, timeout: float = BOUNDARY_SECONDS
    ) -> None:
        """Let every provider extract from the uncommitted stretch; raises `BoundaryFailed` by name.

        Blocks its caller, who commits at a boundary. Nothing is called for no messages.
        """
        if messages:
            copy = deepcopy(list(messages))

            def end(provider: MemoryProvider) -> None:
                named: Any = (
                    {"session_id": session_id} if takes(provider.on_session_end, "session_id") else {}
                )
                provider.on_session_end(deepcopy(copy), **named)

            self._on_every_lane(session_id, end, timeout)

    def on_session_switch(self, new_session_id: str, *, parent_session_id: str, **kwargs: Any) -> None:  # noqa: ANN401
        """The conversation goes on elsewhere: what was recalled for the old session is dropped."""
        for lanes in self._lanes.values():
            lanes.recalls.forget(parent_session_id)
            lanes.hook(
                parent_session_id,
                lambda provider: provider.on_session_switch(
                    new_session_id, parent_session_id=parent_session_id, **kwargs
                ),
            )

    def on_delegation(self, task: str, result: str, *, child_session_id: str, session_id: str = "") -> None:
        """A subagent of the session has ended; every provider hears of it, behind what it is owed."""
        for lanes in self._lanes.values():
            lanes.hook(
                session_id,
                lambda provider: provider.on_delegation(task, result, child_session_id=child_session_id),
            )

    def on_pre_compress(
        self, messages: Sequence[Message], *, session_id: str, timeout: float = BOUNDARY_SECONDS
    ) -> str:
        """What the providers want a summary to keep, from those that answer in time."""
        copy = deepcopy(list(messages))
        calls = [
            lanes.hook(session_id, lambda provider: provider.on_pre_compress(deepcopy(copy)))
            for lanes in self._lanes.values()
        ]
        wait_for_all([call for call in calls if call is not None], timeout)
        return "\n\n".join(text for text in map(_text, calls) if text)

    def _on_every_lane(
        self, session_id: str, call: Callable[[MemoryProvider], object], timeout: float
    ) -> None:
        calls = {name: lanes.hook(session_id, call) for name, lanes in self._lanes.items()}
        wait_for_all([each for each in calls.values() if each is not None], timeout)
        failures = {name: problem for name, each in calls.items() if (problem := _problem(each))}
        for each in calls.values():
            if each is not None:
                each.cancel()  # what has not begun is asked for again, and would come twice
        if failures:
            raise BoundaryFailed(failures)

    # knowing and ending

    def status(self) -> list[ProviderStatus]:
        """How every provider stands."""
        return [lanes.status() for lanes in self._lanes.values()]

    def flush_pending(self, timeout: float = 10.0) -> bool:
        """A barrier: True once all that was handed over before is done, False when time runs out."""
        budget = ShutdownBudget(timeout, self._clock)
        fences = [(lanes, lanes.fence()) for lanes in self._lanes.values()]
        return all(lanes.wait_settled(fence, budget) for lanes, fence in fences)

    def shutdown_all(self, budget: ShutdownBudget | None = None) -> list[str]:
        """Drain every lane within one shared budget; returns what is still owed, in plain words."""
        with self._lock:
            if self._closed:
                return []
            self._closed = True
        self._stop.set()
        atexit.unregister(self._at_exit)
        budget = budget or ShutdownBudget(self._drain_seconds, self._clock)
        for lanes in self._lanes.values():
            lanes.close(budget)
        # All of them, not the first that fails: each has spent the same budget.
        finished = [budget.wait(lanes.writes.finished) for lanes in self._lanes.values()]
        owed = self._owed()
        if self._given is None and self._store is not None and all(finished):
            self._store.close()
        return owed

    def _owed(self) -> list[str]:
        lines = []
        for name, lanes in self._lanes.items():
            try:
                owed = lanes.status().owed
            except HoldfastError as error:
                lines.append(f"what is owed to {name} can't be read: {error}")
                continue
            if owed:
                turns = "1 turn is" if owed == 1 else f"{owed} turns are"
                fate = "sent at the next start" if self._given else "lost: this memory has no store"
                lines.append(f"{turns} owed to {name}; they will be {fate}")
        return lines

    def _at_exit(self) -> None:
        for line in self.shutdown_all():
            logger.warning(line)

    def _keep_claims(self) -> None:
        while not self._clock.wait(self._stop, KEEP_CLAIMS_SECONDS):
            for lanes in self._lanes.values():
                try:
                    lanes.writes.keep_claim()
                except HoldfastError:
                    logger.exception("memory.claim_not_kept", extra={"provider": lanes.writes.name})


def together(recalled: Iterable[RecalledFrom]) -> str:
    """What several providers recalled, as one text for the prompt."""
    return "\n\n".join(each.text for each in recalled if each.text)


def _recalled(lanes: Lanes, answer: "Future[Any] | None", session_id: str) -> RecalledFrom:
    name = lanes.writes.name
    if text := _text(answer):
        return RecalledFrom(name, "answered", text)
    if late := lanes.recalls.late_answer(session_id):
        return RecalledFrom(name, "late", late)
    if answer is None or not answer.done() or answer.cancelled():
        return RecalledFrom(name, "missed", "")
    return RecalledFrom(name, "answered" if answer.exception() is None else "failed", "")


def _text(answer: "Future[Any] | None") -> str:
    if answer is None or not answer.done() or answer.cancelled() or answer.exception() is not None:
        return ""
    said = answer.result()
    return said if isinstance(said, str) else ""


def _problem(call: "Future[Any] | None") -> str | None:
    if call is None:
        return "it is shutting down"
    if not call.done() or call.cancelled():
        return "it did not answer in time"
    error = call.exception()
    return None if error is None else f"{type(error).__name__}: {error}"
