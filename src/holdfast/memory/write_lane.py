"""The write lane: one long-lived daemon thread per provider that delivers what it is owed, in order.

`run_once` is the whole algorithm; the thread around it only waits. Boundary hooks go through the same
lane: a hook of a session runs when every turn that was owed before it has been settled.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from holdfast.core.contract import Clock
from holdfast.core.errors import LeaseLost, MemoryClosed, StoreClosed, Undeliverable
from holdfast.memory.contract import ENDING, MemoryProvider
from holdfast.memory.delivery import Courier
from holdfast.memory.retry import CircuitBreaker, RetryPolicy
from holdfast.process import ShutdownBudget
from holdfast.sessions import Delivery, SessionDB

logger = logging.getLogger(__name__)

T = TypeVar("T")

LEASE_SECONDS = 15.0
LARGEST_BATCH = 50
# A store that others share, or whose clock differs, is looked at again after this long.
LONGEST_WAIT = 5.0


@dataclass
class _Hook:
    """A call that must not overtake what was owed to its session before it."""

    session_id: str
    call: Callable[[], Any]
    outcome: Future[Any]
    after: int | None = None


class WriteLane:
    """Everything that is written to one provider, on one thread."""

    def __init__(
        self,
        provider: MemoryProvider,
        store: SessionDB,
        clock: Clock,
        policy: RetryPolicy,
        start: Callable[[], None],
    ) -> None:
        self.name = provider.name
        self.delivered = 0
        self.last_error: str | None = None
        self.finished = threading.Event()
        self._provider = provider
        self._start_provider = start
        self._outbox = store.outbox
        self._courier = Courier(provider, store)
        self._clock = clock
        self._policy = policy
        self._circuit = CircuitBreaker(policy)
        self._limit = LARGEST_BATCH
        self._started = False
        self._wake = threading.Event()
        self._progress = threading.Condition()  # guards _arrived, _claimed and _budget; told of progress
        self._arrived: list[_Hook] = []
        self._claimed: Delivery | None = None
        self._budget: ShutdownBudget | None = None
        self._waiting: list[_Hook] = []
        self._thread = threading.Thread(target=self._run, name=f"memory-write-{self.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Something new is owed."""
        # The lane clears it before it looks, so while it is set the lane is still to look.
        if not self._wake.is_set():
            self._wake.set()

    @property
    def circuit(self) -> str:
        return self._circuit.state

    def call(self, session_id: str, call: Callable[[], T]) -> "Future[T]":
        """Run a hook after everything owed to that session by now."""
        hook = _Hook(session_id, call, Future())
        with self._progress:
            if self._budget is not None:
                raise MemoryClosed(self.name)
            self._arrived.append(hook)
        self._wake.set()
        return hook.outcome

    def wait_until(self, done: Callable[[], bool], timeout: float) -> bool:
        """Wait until `done`, looked at after each step of the lane; False when the time ran out."""
        budget = ShutdownBudget(timeout, self._clock)
        while not done():
            if budget.expired or not self._thread.is_alive():
                return done()
            with self._progress:
                self._progress.wait(min(budget.remaining(), 0.05))
        return True

    def has_hooks(self) -> bool:
        """Whether a hook is waiting or running."""
        with self._progress:
            return bool(self._arrived or self._waiting)

    def keep_claim(self) -> None:
        """Prolong the claim of the call in progress: while this process lives, nobody repeats it."""
        with self._progress:
            claimed = self._claimed
        if claimed is not None:
            try:
                self._outbox.extend(claimed, lease_seconds=LEASE_SECONDS)
            except LeaseLost:
                logger.warning("memory.claim_lost", extra={"provider": self.name, "delivery": claimed.id})

    def close(self, budget: ShutdownBudget) -> None:
        """Take no more hooks, deliver what is due while the budget lasts, then let the provider go."""
        with self._progress:
            if self._budget is None:
                self._budget = budget
        self._wake.set()

    def run_once(self) -> bool:
        """Run the hooks that may run and deliver one batch; False when there was nothing to do."""
        if not self._ready():
            return False
        did = self._run_hooks()
        if not self._circuit.allows(self._clock.monotonic()):
            return did
        limit = self._limit if self._circuit.state == "closed" else 1
        deliveries = self._outbox.claim(self.name, lease_seconds=LEASE_SECONDS, limit=limit)
        if not deliveries:
            return did
        self._deliver(deliveries)
        return True

    # the thread

    def _run(self) -> None:
        try:
            while self._goes_on():
                self._wake.clear()
                try:
                    did = self.run_once()
                except StoreClosed:
                    break
                except Exception as error:
                    # The store can't serve just now. What is owed stays owed.
                    logger.exception("memory.lane_failed", extra={"provider": self.name})
                    self.last_error = repr(error)
                    did = False
                with self._progress:
                    self._progress.notify_all()
                    closing = self._budget is not None
                if not did:
                    if closing:
                        break
                    self._clock.wait(self._wake, self._pause())
        finally:
            self._let_go()

    def _goes_on(self) -> bool:
        with self._progress:
            return self._budget is None or not self._budget.expired

    def _pause(self) -> float:
        if not self._circuit.allows(self._clock.monotonic()):
            return max(0.0, min(self._circuit.probe_at - self._clock.monotonic(), LONGEST_WAIT))
        try:
            due = self._outbox.next_due(self.name)
        except Exception:
            logger.exception("memory.lane_failed", extra={"provider": self.name})
            return LONGEST_WAIT
        if due is None:
            return LONGEST_WAIT
        return max(0.001, min(due / 1_000_000 - self._clock.now(), LONGEST_WAIT))

    def _let_go(self) -> None:
        with self._progress:
            abandoned = [*self._waiting, *self._arrived]
            self._waiting, self._arrived = [], []
        for hook in abandoned:
            if hook.outcome.set_running_or_notify_cancel():
                hook.outcome.set_exception(MemoryClosed(self.name))
        if self._started:
            self._guarded(self._provider.shutdown)
        self.finished.set()
        with self._progress:
            self._progress.notify_all()

    # one step

    def _ready(self) -> bool:
        if self._started:
            return True
        if not self._circuit.allows(self._clock.monotonic()):
            return False
        error = self._guarded(self._start_provider)
        if error is None:
            self._started = True
        else:
            # Nothing works without it, so the circuit opens at once.
            self._circuit.failures = max(self._circuit.failures, self._policy.failures_to_open - 1)
            self._note_failure(error)
        return self._started

    def _run_hooks(self) -> bool:
        with self._progress:
            arrived, self._arrived = self._arrived, []
            self._waiting += arrived
            waiting = list(self._waiting)
        held: set[str] = set()
        did = False
        for hook in waiting:
            if hook.after is None:
                hook.after = self._outbox.last_open(self.name)
            if hook.session_id in held or self._outbox.is_open(
                self.name, last=hook.after, session_id=hook.session_id
            ):
                held.add(hook.session_id)
                continue
            self._settle(hook)
            did = True
        return did

    def _settle(self, hook: _Hook) -> None:
        try:
            if not hook.outcome.set_running_or_notify_cancel():
                return  # who asked has given up before it began
            result = hook.call()
        except BaseException as error:  # noqa: BLE001 - it goes to whoever waits for the hook
            self.last_error = _said(error)
            hook.outcome.set_exception(error)
        else:
            hook.outcome.set_result(result)
        finally:
            with self._progress:
                self._waiting.remove(hook)

    def _deliver(self, deliveries: Sequence[Delivery]) -> None:
        left = list(deliveries)
        with self._progress:
            self._claimed = deliveries[0]
        try:
            for taken in self._courier.deliver(deliveries):
                self._mark(taken)
                del left[: len(taken)]
        except LeaseLost:
            logger.warning("memory.claim_lost", extra={"provider": self.name, "deliveries": len(left)})
            self._give_back_the_rest(left)
        except ENDING as refusal:
            # The provider's end has begun before the lane's; nothing is wrong with the turn.
            logger.info("memory.delivery_refused", extra={"provider": self.name, "deliveries": len(left)})
            self._return(left, refusal)
        except BaseException as error:
            logger.warning("memory.delivery_failed", exc_info=True, extra={"provider": self.name})
            self._return(left, error)
        else:
            self._circuit.succeeded()
            self._limit = min(LARGEST_BATCH, self._limit * 2)
        finally:
            with self._progress:
                self._claimed = None

    def _mark(self, taken: Sequence[Delivery]) -> None:
        try:
            self._outbox.mark_delivered(*taken)
        except LeaseLost:
            # One of them was deleted meanwhile, with its conversation; the provider has the others.
            taken = [each for each in taken if self._outbox.is_held(each)]
            if not taken:
                raise
            self._outbox.mark_delivered(*taken)
        self.delivered += len(taken)
        self._circuit.succeeded()

    def _give_back_the_rest(self, left: Sequence[Delivery]) -> None:
        """Of a claim that is lost in part, because a conversation was deleted, the rest is owed at once."""
        for delivery in reversed(left):
            with suppress(LeaseLost):
                self._outbox.give_back(delivery)

    def _return(self, left: list[Delivery], error: BaseException) -> None:
        """Owe the rest again. In a batch nobody knows which turn it was: they come again one by one."""
        batched = self._courier.in_batches and len(left) > 1
        culprit, rest = (None, left) if batched else (left[0], left[1:])
        for delivery in reversed(rest):
            self._outbox.give_back(delivery)
        if batched or not isinstance(error, Undeliverable):
            self._note_failure(error)
        self._limit = 1
        if culprit is None:
            return
        self.last_error = _said(error)
        if isinstance(error, Undeliverable) or culprit.attempts >= self._policy.most_attempts:
            self._outbox.set_aside(culprit, error=_said(error))
        else:
            delay = getattr(error, "retry_after", None) or self._policy.delay(culprit.attempts)
            self._outbox.defer(culprit, delay_seconds=delay, error=_said(error))

    def _note_failure(self, error: BaseException) -> None:
        self.last_error = _said(error)
        self._circuit.failed(self._clock.monotonic(), getattr(error, "retry_after", None))

    def _guarded(self, call: Callable[[], object]) -> BaseException | None:
        """Call into the provider; what it raises is logged and returned."""
        try:
            call()
        except BaseException as error:
            if not isinstance(error, ENDING):
                logger.warning("memory.provider_failed", exc_info=True, extra={"provider": self.name})
            self.last_error = _said(error)
            return error
        return None


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
