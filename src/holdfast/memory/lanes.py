"""One provider with its two lanes, and what the manager wants of the pair."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from holdfast.core.contract import Clock
from holdfast.core.errors import MemoryClosed
from holdfast.memory.config import declared, resolve
from holdfast.memory.contract import MemoryProvider, ProviderStatus
from holdfast.memory.recall_lane import RecallLane
from holdfast.memory.retry import RetryPolicy
from holdfast.memory.write_lane import WriteLane
from holdfast.process import ShutdownBudget
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import SECOND

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Lanes:
    """A write lane and a recall lane: neither waits for the other (M7)."""

    def __init__(self, provider: MemoryProvider, store: SessionDB, clock: Clock, policy: RetryPolicy) -> None:
        self.provider = provider
        self._store = store
        self._clock = clock
        self._ready = threading.Event()
        self._first: tuple[str, dict[str, Any]] = ("", {})
        self.writes = WriteLane(provider, store, clock, policy, self._initialize)
        self.recalls = RecallLane(provider, clock, self._ready)

    def start(self, session_id: str, kwargs: dict[str, Any]) -> None:
        """Start the threads; the provider is initialised on its write lane, before anything else."""
        self._first = (session_id, kwargs)
        self.writes.start()
        self.recalls.start()

    def _initialize(self) -> None:
        session_id, kwargs = self._first
        fields = declared(self.provider)
        if fields and "config" not in kwargs:
            kwargs = {**kwargs, "config": resolve(fields)}
        self.provider.initialize(session_id, **kwargs)
        self._ready.set()

    def hook(self, session_id: str, call: Callable[[MemoryProvider], T]) -> "Future[T] | None":
        """Run a hook on the write lane, behind what the session is owed; None when shutting down."""
        try:
            return self.writes.call(session_id, lambda: call(self.provider))
        except MemoryClosed:
            return None

    def ask_now(self, call: Callable[[], T], otherwise: T) -> T:
        """A cheap question to the provider; when it raises, it is logged and left out."""
        try:
            return call()
        except Exception:
            logger.exception("memory.provider_failed", extra={"provider": self.writes.name})
            return otherwise

    def tools(self) -> list[dict[str, Any]]:
        none: list[dict[str, Any]] = []
        return self.ask_now(self.provider.get_tool_schemas, none)

    def tool_names(self) -> set[str]:
        return {schema.get("function", schema).get("name", "") for schema in self.tools()}

    def fence(self) -> int:
        """Where the deliveries handed over by now end."""
        return self._store.outbox.last_open(self.writes.name)

    def wait_settled(self, fence: int, budget: ShutdownBudget) -> bool:
        """Wait until everything up to the fence, every hook and every recall is done."""
        name = self.writes.name

        def settled() -> bool:
            return not self.writes.has_hooks() and not (
                fence and self._store.outbox.is_open(name, last=fence)
            )

        return self.writes.wait_until(settled, budget.remaining()) and self.recalls.wait_idle(
            budget.remaining()
        )

    def status(self) -> ProviderStatus:
        backlog = self._store.outbox.backlog(self.writes.name)
        age = None if backlog.oldest is None else max(0.0, self._clock.now() - backlog.oldest / SECOND)
        return ProviderStatus(
            provider=self.writes.name,
            owed=backlog.owed,
            oldest_owed_seconds=age,
            set_aside=backlog.set_aside,
            delivered=self.writes.delivered,
            circuit="open" if self.writes.circuit == "open" else "closed",
            last_error=self.writes.last_error or self.recalls.last_error,
            recall_stuck=self.recalls.is_stuck,
        )

    def close(self, budget: ShutdownBudget) -> None:
        self.recalls.close()
        self.writes.close(budget)
