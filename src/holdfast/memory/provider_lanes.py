"""One provider with its write lane, its recall lane and its gate, as the manager uses them."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
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


class ProviderLanes:
    """A write lane and a recall lane that never wait for each other (M7)."""

    def __init__(self, gated: GatedProvider, store: SessionDB, clock: Clock, policy: RetryPolicy) -> None:
        self.name = gated.name
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
        nothing = BoundedText("")
        self.block = CachedAnswer(self.gate, "system_prompt_block", self._block, nothing)
        self.schemas = CachedAnswer(self.gate, "get_tool_schemas", self._schemas, ToolSchemas())

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

    def _block(self) -> BoundedText:
        return bound_text(self.provider.system_prompt_block() or "", BLOCK_CHARACTERS, "system_prompt_block")

    def _schemas(self) -> ToolSchemas:
        return check_schemas(self.provider.get_tool_schemas())

    def hook(self, session_id: str, what: str, call: Callable[[MemoryProvider], T]) -> "Future[T]":
        """Queue a hook behind the deliveries of its session."""
        return self.writes.call(session_id, what, lambda: call(self.provider))

    def tool_names(self) -> set[str]:
        """The tools from the provider's newest schemas."""
        return {str(each["name"]) for each in self.schemas.last.functions}

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
        )

    def read_backlog(self) -> Backlog:
        """Read the backlog from the store; `status` uses the last one after the store is closed."""
        self._backlog = self._store.outbox.backlog(self.name)
        return self._backlog

    def close(self, budget: ShutdownBudget) -> None:
        self.recalls.close()
        self.writes.close(budget)
