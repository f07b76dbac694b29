"""`MemoryManager`: any number of providers, each with a write lane and a recall lane of its own.

Recording a turn returns at once; the lanes deliver it. With `store=`, a recorded turn is on disk when the
call returns and survives the process. Without one, the same code runs on a store in memory.
"""

import atexit
import logging
import threading
from collections.abc import Sequence
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
    MemoryClosed,
    ProviderInvalid,
    StoreClosed,
)
from holdfast.core.events import RecalledFrom, join_recalled
from holdfast.core.ids import new_id
from holdfast.memory import browse, provider_requests
from holdfast.memory.browse import MemorySearchResult
from holdfast.memory.contract import (
    BLOCK_TOKENS,
    RECALL_TOKENS,
    TOOL_TOKENS,
    MemoryProvider,
    ProviderStatus,
    TextEmbedder,
    TextVectors,
)
from holdfast.memory.forgetter import Forgetter
from holdfast.memory.pending_providers import PendingProviders
from holdfast.memory.provider_gate import ANSWER_SECONDS, GatedProvider, gate_provider
from holdfast.memory.provider_lanes import ProviderLanes
from holdfast.memory.provider_requests import OfferedTools, PromptBlocks, ProviderRequest
from holdfast.memory.retry import RetryPolicy
from holdfast.process import ShutdownBudget
from holdfast.sessions import SessionDB
from holdfast.sessions.codec import checked_name
from holdfast.sessions.contract import OWNER, Backlog

logger = logging.getLogger(__name__)

DRAIN_SECONDS = 5.0
RECALL_SECONDS = 2.0
# Shorter than the lifecycle waits for a commit, so that the error names the late provider.
BOUNDARY_SECONDS = 4.0
TOOL_SECONDS = 60.0
EMBED_SECONDS = 60.0
KEEP_CLAIMS_SECONDS = 4.0
LOOK_SECONDS = 0.05
MEMORY = ":memory:"


class MemoryManager:
    """Delivers turns to memory providers and queries them, without ever waiting for a slow one.

    A call without a session id belongs to one unnamed session of this manager. Recording a turn after the
    shutdown raises nothing: the turn is in the outbox or, when the store is closed, counted as owed.
    """

    def __init__(
        self,
        store: SessionDB | None = None,
        *,
        clock: Clock | None = None,
        policy: RetryPolicy | None = None,
        drain_seconds: float = DRAIN_SECONDS,
        recall_seconds: float = RECALL_SECONDS,
    ) -> None:
        self._given_store = store
        self._store = store
        self._clock = clock or SystemClock()
        self._policy = policy or RetryPolicy()
        self._drain_seconds = drain_seconds
        self._recall_seconds = recall_seconds
        self._lock = threading.Lock()  # guards _lanes, _names, _pending, _store, _left_out and _closed
        self._lanes: dict[str, ProviderLanes] = {}
        self._names: tuple[str, ...] = ()
        self._pending = PendingProviders()
        self._closed = False
        self._stop = threading.Event()
        self._left_out: set[str] = set()
        """Providers that were left out of a conversation, because they can't keep scopes apart."""
        self._late_turn = False
        """A turn was recorded after the shutdown."""
        self._unnamed = new_id()

    @property
    def provider_names(self) -> tuple[str, ...]:
        """The providers that receive a completed turn."""
        return self._names

    def names_for(self, scope: str) -> tuple[str, ...]:
        """The providers that receive a completed turn of a scope: those that can keep scopes apart.

        Of one that has not loaded yet this is not known: what it is owed is set aside if it can't.
        """
        served = {lanes.name for lanes in self._serving(scope)}
        return tuple(name for name in self._names if name in served or name not in self._lanes)

    def _serving(self, scope: str) -> list[ProviderLanes]:
        lanes = self._lanes
        serving = [each for each in lanes.values() if each.gated.serves(scope)]
        if len(serving) < len(lanes):
            self._note_left_out(set(lanes) - {each.name for each in serving})
        return serving

    def _note_left_out(self, names: set[str]) -> None:
        with self._lock:
            fresh = names - self._left_out
            self._left_out |= fresh
        for name in sorted(fresh):
            logger.warning("memory.scopes_not_kept", extra={"provider": name})

    def add_provider(self, provider: MemoryProvider, *, session_id: str = "", **kwargs: Any) -> None:  # noqa: ANN401
        """Start the lanes of a provider, which also deliver its backlog in the store."""
        self.attach(gate_provider(provider, self._clock), session_id=session_id, given=kwargs)

    def add_pending(self, name: str, problem: str) -> None:
        """Record turns for a provider that has not loaded yet; `attach` adds it later."""
        checked_name("a provider's name", name)
        with self._lock:
            self._pending.add(name, problem)
            self._names = self._all_names()

    @property
    def has_pending_providers(self) -> bool:
        """Whether a provider that did not load in time may still load."""
        return self._pending.may_still_load

    def mark_unusable(self, name: str, problem: str) -> None:
        """A pending provider has loaded and can't be used. Its turns stay in the outbox."""
        with self._lock:
            self._pending.mark_unusable(name, problem)

    def attach(
        self, provider: GatedProvider, *, expected: str = "", session_id: str = "", given: dict[str, Any]
    ) -> None:
        """Start the lanes of a provider; it also receives the turns recorded under its pending name."""
        # Checked here, so that recording a turn need not check it.
        checked_name("a provider's name", provider.name)
        with self._lock:
            if self._closed:
                raise MemoryClosed(provider.name)
            if provider.name in self._lanes:
                raise ProviderInvalid(provider.name, "there is one of that name already")
            if self._store is None:
                self._store = SessionDB(MEMORY, clock=self._clock)
            first = not self._lanes
            store = self._store
            lanes = ProviderLanes(provider, store, self._clock, self._policy)
            self._pending.remove(expected)
            self._lanes = {**self._lanes, provider.name: lanes}
            self._names = self._all_names()
            is_alias = bool(expected) and expected not in self._lanes
        if is_alias and store.outbox.last_open(expected):
            store.outbox.rename_provider(expected, provider.name)
        lanes.start(session_id, given)
        if first:
            atexit.register(self._at_exit)
            threading.Thread(target=self._keep_claims, name="memory-claims", daemon=True).start()

    def _all_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self._lanes, *self._pending)))

    # recording turns

    def sync_all(
        self,
        user: "str | list[dict[str, Any]] | None",
        assistant: "str | list[dict[str, Any]] | None",
        *,
        session_id: str | None = None,
        messages: Sequence[Message] | None = None,
    ) -> None:
        """Record a completed turn for every provider; with a store, it is on disk when this returns."""
        if not self._names or self._store is None:
            return
        self._late_turn = self._late_turn or self._closed
        try:
            self._record(self._store, user, assistant, session_id or self._unnamed, messages)
        except StoreClosed:
            # The turn came after the shutdown, which was reported already. Raising would not help the caller.
            logger.warning("memory.turn_after_the_end", extra={"session": session_id})
            for lanes in self._lanes.values():
                lanes.refused += 1

    def _record(
        self,
        store: SessionDB,
        user: "str | list[dict[str, Any]] | None",
        assistant: "str | list[dict[str, Any]] | None",
        session_id: str,
        messages: Sequence[Message] | None,
    ) -> None:
        if isinstance(user, str) and isinstance(assistant, str):
            store.turns.record_exchange(
                session_id,
                (user, assistant),
                providers=self._names,
                provider_messages=messages,
                then=self.wake,
            )
            return
        # A list of parts or None may be invalid; the caller gets that error.
        turn: list[Message] = [
            {"role": "user", "content": user},
            {"role": "assistant", "content": assistant},
        ]
        store.turns.record(
            session_id, turn, providers=self._names, provider_messages=messages, then=self.wake
        )

    def wake(self) -> None:
        """A completed turn is in the outbox: wake the write lanes."""
        for lanes in self._lanes.values():
            lanes.writes.wake()

    def queue_prefetch_all(self, query: str, *, session_id: str | None = None, scope: str = OWNER) -> None:
        """Let every provider recall in advance for the next turn of the session."""
        for lanes in self._serving(scope):
            lanes.recalls.hint(query, session_id or self._unnamed, self._recall_seconds, scope)

    # queries

    def prefetch_all(self, query: str, *, session_id: str | None = None, timeout: float | None = None) -> str:
        """The memories for the query, as one text, from every provider that answers in time."""
        return join_recalled(self.recall_all(query, session_id=session_id, timeout=timeout))

    def recall_all(
        self, query: str, *, session_id: str | None = None, timeout: float | None = None
    ) -> tuple[RecalledFrom, ...]:
        """The memories for the query by provider, each with the outcome of its recall."""
        return self.ask_recall(query, session_id=session_id, timeout=timeout).wait()

    def ask_recall(
        self,
        query: str,
        *,
        session_id: str | None = None,
        timeout: float | None = None,
        tokens: int = RECALL_TOKENS,
        scope: str = OWNER,
    ) -> ProviderRequest[tuple[RecalledFrom, ...]]:
        """Start a recall on every provider without waiting; the providers share `tokens` fairly."""
        seconds = self._recall_seconds if timeout is None else timeout
        return provider_requests.ask_recall(
            self._serving(scope), scope, query, session_id or self._unnamed, seconds, tokens
        )

    def system_prompt_block(self, timeout: float = ANSWER_SECONDS) -> str:
        """The text that the providers add to the system prompt."""
        return self.ask_prompt_blocks(timeout).wait().text

    def ask_prompt_blocks(
        self, timeout: float, tokens: int = BLOCK_TOKENS, *, scope: str = OWNER
    ) -> ProviderRequest[PromptBlocks]:
        """Request each provider's part of the system prompt without waiting."""
        return provider_requests.ask_blocks(self._serving(scope), scope, timeout, tokens)

    def get_tool_schemas(self, timeout: float = ANSWER_SECONDS) -> list[dict[str, Any]]:
        """The tools of every provider."""
        return list(self.ask_tool_schemas(timeout).wait().functions)

    def ask_tool_schemas(
        self, timeout: float, tokens: int = TOOL_TOKENS, *, scope: str = OWNER
    ) -> ProviderRequest[OfferedTools]:
        """Request the tools of every provider without waiting."""
        return provider_requests.ask_schemas(self._serving(scope), scope, timeout, tokens)

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], *, timeout: float = TOOL_SECONDS) -> str:
        """Run a tool of a provider and wait for its result."""
        if not any(tool_name in each.tool_names(OWNER) for each in self._lanes.values()):
            self.get_tool_schemas()
        return self.ask_tool(tool_name, args, timeout=timeout).wait()

    def ask_tool(
        self, tool_name: str, args: dict[str, Any], *, timeout: float = TOOL_SECONDS, scope: str = OWNER
    ) -> ProviderRequest[str]:
        """Start a tool of a provider without waiting."""
        for lanes in self._serving(scope):
            if tool_name in lanes.tool_names(scope):
                return provider_requests.ask_tool(lanes, scope, tool_name, args, timeout)
        raise ProviderInvalid("memory", f"no provider has a tool {tool_name!r}")

    def search(
        self, query: str, *, provider: str = "", limit: int = 20, timeout: float = 10.0, scope: str = OWNER
    ) -> MemorySearchResult:
        """Search the memories of one provider or of all, for a person; blocks the caller.

        The result has the answers of the providers that work; raises when none of them answers. A provider
        that keeps no scopes apart is searched for the owner alone.
        """
        lanes = {provider: self._named(provider)} if provider else dict(self._lanes)
        asked = {
            name: each.recalls.call("a search", partial(_search, each.gated, scope, query, limit), timeout)
            for name, each in lanes.items()
            if each.gated.serves(scope)
        }
        wait_for_all(asked.values(), timeout)
        return browse.collect(asked)

    def embed(self, texts: Sequence[str], *, timeout: float = EMBED_SECONDS) -> TextVectors:
        """The texts as vectors of the first provider that has a model; blocks the caller."""
        for name, each in self._lanes.items():
            if isinstance(each.provider, TextEmbedder):
                work = partial(each.provider.embed_texts, texts, timeout)
                answer = each.recalls.call("embeddings", work, timeout)
                wait_for_all([answer], timeout)
                vectors: TextVectors = browse.result_of(name, answer)
                return vectors
        raise InvalidInput("no memory provider in use has an embedding model; the provider local has one")

    @property
    def forgetter(self) -> Forgetter:
        """Forgets what a person selects, in every provider; see `forgetter.py`."""
        if self._store is None:
            raise InvalidInput("no memory is in use; there is nothing to forget")
        return Forgetter(self._store, self._lanes, self._names, self._clock)

    def _named(self, provider: str) -> ProviderLanes:
        if provider not in self._lanes:
            raise InvalidInput(f"there is no memory provider {provider!r}; there is {', '.join(self._lanes)}")
        return self._lanes[provider]

    # boundaries

    def on_session_end(
        self,
        messages: Sequence[Message],
        *,
        session_id: str | None = None,
        timeout: float = BOUNDARY_SECONDS,
        scope: str = OWNER,
    ) -> None:
        """Let every provider extract from the uncommitted messages; blocks the caller.

        Raises `BoundaryFailed` with the providers that failed. Without messages nothing is called.
        """
        if messages:
            copy, session = deepcopy(list(messages)), session_id or self._unnamed
            lanes = self._serving(scope)
            failures = provider_requests.ask_session_end(lanes, scope, session, copy, timeout).wait()
            if failures:
                raise BoundaryFailed(failures)

    def on_session_switch(
        self,
        new_session_id: str,
        *,
        parent_session_id: str | None = None,
        scope: str = OWNER,
        **kwargs: Any,  # noqa: ANN401
    ) -> None:
        """The conversation continues in another session; the recalls of the old one are dropped."""
        left = parent_session_id or self._unnamed
        for lanes in self._serving(scope):
            lanes.recalls.forget(left)
            lanes.hook(
                scope,
                left,
                "on_session_switch",
                lambda provider: provider.on_session_switch(new_session_id, parent_session_id=left, **kwargs),
            )

    def on_delegation(
        self,
        task: str,
        result: str,
        *,
        child_session_id: str = "",
        session_id: str | None = None,
        scope: str = OWNER,
    ) -> None:
        """A subagent of the session has finished; every provider is notified after its deliveries."""
        for lanes in self._serving(scope):
            lanes.hook(
                scope,
                session_id or self._unnamed,
                "on_delegation",
                lambda provider: provider.on_delegation(task, result, child_session_id=child_session_id),
            )

    def on_pre_compress(
        self,
        messages: Sequence[Message],
        *,
        session_id: str | None = None,
        timeout: float = BOUNDARY_SECONDS,
    ) -> str:
        """The notes that a summary should keep, from the providers that answer in time."""
        return self.ask_notes(deepcopy(list(messages)), session_id=session_id, timeout=timeout).wait()

    def ask_notes(
        self,
        messages: Sequence[Message],
        *,
        session_id: str | None = None,
        timeout: float,
        tokens: int = BLOCK_TOKENS,
        scope: str = OWNER,
    ) -> ProviderRequest[str]:
        """Request the same without waiting. Do not change the messages afterwards."""
        session = session_id or self._unnamed
        return provider_requests.ask_notes(self._serving(scope), scope, session, messages, timeout, tokens)

    # status and shutdown

    def status(self) -> list[ProviderStatus]:
        """The status of every provider."""
        known = [lanes.status() for lanes in self._lanes.values()]
        return [*known, *self._pending.status(self._store)]

    def problems(self) -> list[str]:
        """The current problems of providers, as messages for the user."""
        late = {name: lanes.gate.late_call() for name, lanes in self._lanes.items()}
        out = [f"{name}: {what}; going on without it" for name, what in late.items() if what]
        alone = [
            f"{name}: it can't keep people apart, so it is used in the owner's conversations alone"
            for name in sorted(self._left_out)
        ]
        return [*self._pending.problems(), *out, *alone]

    def flush_pending(self, timeout: float = 10.0) -> bool:
        """Wait until all earlier turns, hooks and recalls are done; False after the timeout."""
        budget = ShutdownBudget(timeout, self._clock)
        try:
            fences = [(lanes, lanes.fence()) for lanes in self._lanes.values()]
            settled = all(lanes.wait_settled(fence, budget) for lanes, fence in fences)
            return settled and self._wait_for_pending(budget)
        except StoreClosed:
            # After the store is closed, only the backlog read at the shutdown is known.
            return self._closed and not self._late_turn and not any(each.owed for each in self.status())

    def _wait_for_pending(self, budget: ShutdownBudget) -> bool:
        """Wait until no turn is owed to a pending provider; False after the timeout."""
        while any(each.owed for each in self._pending.status(self._store)):
            if budget.expired or self._clock.wait(self._stop, min(budget.remaining(), LOOK_SECONDS)):
                return False
        return True

    def shutdown_all(self, budget: ShutdownBudget | None = None) -> list[str]:
        """Drain every lane within one shared budget; returns messages about the turns that are still owed."""
        with self._lock:
            if self._closed:
                return []
            self._closed = True
        self._stop.set()
        atexit.unregister(self._at_exit)
        budget = budget or ShutdownBudget(self._drain_seconds, self._clock)
        for lanes in self._lanes.values():
            lanes.close(budget)
        # Wait for every lane, also after one that failed: they share the budget.
        finished = [budget.wait(lanes.writes.finished) for lanes in self._lanes.values()]
        owed = self._owed()
        if self._given_store is None and self._store is not None and all(finished):
            self._store.close()
        return owed

    def _owed(self) -> list[str]:
        lines = []
        for name in self._names:
            try:
                owed = self._read_backlog(name).owed
            except HoldfastError as error:
                lines.append(f"what is owed to {name} can't be read: {error}")
                continue
            if owed:
                turns = "1 turn is" if owed == 1 else f"{owed} turns are"
                fate = "sent at the next start" if self._given_store else "lost: this memory has no store"
                lines.append(f"{turns} owed to {name}; {'it' if owed == 1 else 'they'} will be {fate}")
        return lines

    def _read_backlog(self, name: str) -> Backlog:
        if name in self._lanes or self._store is None:
            return self._lanes[name].read_backlog()
        return self._store.outbox.backlog(name)

    def _at_exit(self) -> None:
        for line in self.shutdown_all():
            logger.warning(line)

    def _keep_claims(self) -> None:
        newest = None
        while not self._clock.wait(self._stop, KEEP_CLAIMS_SECONDS):
            newest = self._follow_forgettings(newest)
            for lanes in self._lanes.values():
                lanes.gate.log_late_calls()
                try:
                    lanes.writes.keep_claim()
                except HoldfastError:
                    logger.exception("memory.claim_not_kept", extra={"provider": lanes.writes.name})

    def _follow_forgettings(self, known: int | None) -> int | None:
        """Another process may have had something forgotten: then no recall from before is used."""
        try:
            newest = self._store.forgettings.newest() if self._store is not None else None
        except HoldfastError:
            return known
        if newest != known:
            for lanes in self._lanes.values():
                lanes.recalls.forget_all()
                lanes.writes.look_for_forgettings()
        return newest


def _search(gated: GatedProvider, scope: str, query: str, limit: int) -> list[browse.FoundMemory]:
    return browse.search(gated.of(scope), query, limit)
