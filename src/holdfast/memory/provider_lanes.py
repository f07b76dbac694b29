"""One provider with its write lane, its recall lane and its gate, as the manager uses them."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from holdfast.core.contract import Clock
from holdfast.core.errors import StoreClosed
from holdfast.memory.bounds import BLOCK_CHARACTERS, BoundedText, ToolSchemas, bound_text, check_schemas
from holdfast.memory.config import declared_fields, resolve_config
from holdfast.memory.contract import MemoryProvider, ProviderStatus
from holdfast.memory.provider_gate import CachedAnswer, GatedProvider
from holdfast.memory.recall_lane import RecallLane
from holdfast.memory.retry import RetryPolicy
from holdfast.memory.write_lane import WriteLane
from holdfast.process import ShutdownBudget
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import SECOND, Backlog

T = TypeVar("T")

MAX_SCOPES = 256
"""Of so many scopes the answers about the provider itself are kept."""


@dataclass(frozen=True, slots=True)
class AboutScope:
    """What a provider adds to the prompts of one scope: a block of text, and its tools."""

    block: CachedAnswer[BoundedText]
    schemas: CachedAnswer[ToolSchemas]


class ProviderLanes:
    """A write lane and a recall lane that never wait for each other (M7)."""

    def __init__(self, gated: GatedProvider, store: SessionDB, clock: Clock, policy: RetryPolicy) -> None:
        self.name = gated.name
        self.gated = gated
        self.provider = gated.provider
        self.gate = gated.gate
        self._store = store
        self._clock = clock
        self._ready = threading.Event()
        self._first: tuple[str, dict[str, Any]] = ("", {})
        self._backlog = Backlog(gated.name, 0, None, 0)
        self.refused = 0
        """Turns that came after the store was closed."""
        self.recalls = RecallLane(gated, clock, self._ready)
        self.writes = WriteLane(
            gated, store, clock, policy, self._initialize, after_forgetting=self.recalls.forget_all
        )
        self._lock = threading.Lock()  # guards _about
        self._about: OrderedDict[str, AboutScope] = OrderedDict()

    def start(self, session_id: str, kwargs: dict[str, Any]) -> None:
        """Start the threads; the write lane initialises the provider first."""
        self._first = (session_id, kwargs)
        self.writes.start()
        self.recalls.start()

    def _initialize(self) -> None:
        session_id, kwargs = self._first
        fields = declared_fields(self.provider)
        if fields and "config" not in kwargs:
            kwargs = {**kwargs, "config": resolve_config(fields)}
        self.provider.initialize(session_id, **kwargs)
        self._ready.set()

    def about(self, scope: str) -> AboutScope:
        """What the provider adds to the prompts of a scope; kept for the scopes that were used last."""
        with self._lock:
            about = self._about.get(scope)
            if about is None:
                about = self._about[scope] = AboutScope(
                    CachedAnswer(
                        self.gate, "system_prompt_block", partial(self._block, scope), BoundedText("")
                    ),
                    CachedAnswer(self.gate, "get_tool_schemas", partial(self._schemas, scope), ToolSchemas()),
                )
            self._about.move_to_end(scope)
            while len(self._about) > MAX_SCOPES:
                self._about.popitem(last=False)
            return about

    def _block(self, scope: str) -> BoundedText:
        block = self.gated.of(scope).system_prompt_block()
        return bound_text(block or "", BLOCK_CHARACTERS, "system_prompt_block")

    def _schemas(self, scope: str) -> ToolSchemas:
        return check_schemas(self.gated.of(scope).get_tool_schemas())

    def hook(
        self, scope: str, session_id: str, what: str, call: Callable[[MemoryProvider], T]
    ) -> "Future[T]":
        """Queue a hook behind the deliveries of its session."""
        return self.writes.call(session_id, what, lambda: call(self.gated.of(scope)))

    def tool_names(self, scope: str) -> set[str]:
        """The tools from the provider's newest schemas."""
        return {str(each["name"]) for each in self.about(scope).schemas.last.functions}

    def fence(self) -> int:
        """The id of the last delivery that is open now."""
        return self._store.outbox.last_open(self.name)

    def wait_settled(self, fence: int, budget: ShutdownBudget) -> bool:
        """Wait until all deliveries up to the fence, all hooks and all recalls are done."""

        def settled() -> bool:
            return not self.writes.has_hooks() and not (
                fence and self._store.outbox.is_open(self.name, last=fence)
            )

        return self.writes.wait_until(settled, budget.remaining()) and self.recalls.wait_idle(
            budget.remaining()
        )

    def status(self) -> ProviderStatus:
        with suppress(StoreClosed):
            self.read_backlog()
        backlog = self._backlog
        age = None if backlog.oldest is None else max(0.0, self._clock.now() - backlog.oldest / SECOND)
        return ProviderStatus(
            provider=self.name,
            owed=backlog.owed + self.refused,
            oldest_owed_seconds=age,
            set_aside=backlog.set_aside,
            delivered=self.writes.delivered,
            circuit=self.writes.circuit,
            last_error=self.gate.late_call() or self.writes.last_error or self.recalls.last_error,
            recall_stuck=self.recalls.is_stuck,
            only_here=self.gated.stores_on_host and self._store.is_shared,
        )

    def read_backlog(self) -> Backlog:
        """Read the backlog from the store; `status` uses the last one after the store is closed."""
        self._backlog = self._store.outbox.backlog(self.name)
        return self._backlog

    def close(self, budget: ShutdownBudget) -> None:
        self.recalls.close()
        self.writes.close(budget)
