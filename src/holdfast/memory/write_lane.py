"""The write lane: one long-lived daemon thread per provider that delivers the turns of its outbox, in order.

`run_once` is the whole algorithm; the thread around it only waits. Boundary hooks run on the same lane: a
hook of a session runs after every delivery of that session that was recorded before it.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from holdfast.core.contract import Clock
from holdfast.core.error_text import error_text
from holdfast.core.errors import LeaseLost, MemoryClosed, ProviderUnavailable, StoreClosed, Undeliverable
from holdfast.memory.contract import CLOSED, Circuit
from holdfast.memory.delivery import TurnDelivery
from holdfast.memory.forgetting_task import ForgettingTasks
from holdfast.memory.provider_gate import WRITE_SECONDS, GatedProvider, refused_answer
from holdfast.memory.retry import CircuitBreaker, RetryPolicy
from holdfast.process import ShutdownBudget
from holdfast.process.thread_start import can_start_threads
from holdfast.sessions import Delivery, SessionDB

logger = logging.getLogger(__name__)

T = TypeVar("T")

CLAIM_SECONDS = 12.0
MAX_BATCH = 50
# The longest wait between two looks into the outbox: other processes add to it, and its clock may differ.
MAX_WAIT_SECONDS = 5.0
CLAIMED_WAIT_SECONDS = 1.0
"""The same while something can't be claimed yet: another process may have claimed it and have died."""
MAX_HOOKS = 1_000
"""The most hooks that wait for a provider that hangs; further ones are refused."""


@dataclass
class _Hook:
    """A call that must not overtake earlier deliveries of its session."""

    session_id: str
    what: str
    call: Callable[[], Any]
    outcome: Future[Any]
    after: int | None = None


class WriteLane:
    """Runs the deliveries and hooks of one provider on one thread."""

    def __init__(
        self,
        gated: GatedProvider,
        store: SessionDB,
        clock: Clock,
        policy: RetryPolicy,
        start: Callable[[], None],
        *,
        after_forgetting: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = gated.name
        self.delivered = 0
        self.last_error: str | None = None
        self.finished = threading.Event()
        self._gate = gated.gate
        self._provider = gated.provider
        self._start_provider = start
        self._outbox = store.outbox
        self._delivery = TurnDelivery(gated, store)
        self._forgettings = ForgettingTasks(gated, store, clock, policy, after_forgetting)
        self._clock = clock
        self._policy = policy
        self._circuit = CircuitBreaker(policy)
        self._limit = MAX_BATCH
        self._started = False
        self._wake = threading.Event()
        self._progress = threading.Condition()  # guards _arrived, _claimed and _budget; notified of progress
        self._arrived: list[_Hook] = []
        self._claimed: Delivery | None = None
        self._budget: ShutdownBudget | None = None
        self._waiting: list[_Hook] = []
        self._thread = threading.Thread(target=self._run, name=f"memory-write-{self.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """The outbox has a new delivery."""
        # Setting an event takes a lock. The lane clears it before it reads the outbox, so once is enough.
        if not self._wake.is_set():
            self._wake.set()

    def look_for_forgettings(self) -> None:
        """The store has a new forgetting."""
        self._forgettings.notify()
        self._wake.set()

    @property
    def circuit(self) -> Circuit:
        return self._circuit.state

    def call(self, session_id: str, what: str, call: Callable[[], T]) -> "Future[T]":
        """Queue a hook behind the deliveries of its session; its answer is an error when it is refused."""
        hook = _Hook(session_id, what, call, Future())
        with self._progress:
            if self._budget is not None:
                return refused_answer(MemoryClosed(self.name))
            if len(self._arrived) + len(self._waiting) >= MAX_HOOKS:
                # A hook whose caller has cancelled it needs no room in the queue.
                self._arrived = [each for each in self._arrived if not each.outcome.cancelled()]
            if len(self._arrived) + len(self._waiting) >= MAX_HOOKS:
                logger.warning("memory.hook_refused", extra={"provider": self.name, "call": what})
                problem = "too many calls wait for it already"
                return refused_answer(ProviderUnavailable(self.name, problem=problem))
            self._arrived.append(hook)
        self._wake.set()
        return hook.outcome

    def wait_until(self, done: Callable[[], bool], timeout: float) -> bool:
        """Wait until `done()`, which is tested after each step of the lane; False after the timeout."""
        budget = ShutdownBudget(timeout, self._clock)
        while not done():
            if budget.expired or self.finished.is_set():
                return done()
            with self._progress:
                self._progress.wait(min(budget.remaining(), 0.05))
        return True

    @property
    def late_call(self) -> str | None:
        """A description of the late call on this lane; None when there is none."""
        return self._gate.late_call(self._thread.ident)

    def has_hooks(self) -> bool:
        """Whether a hook is waiting or running."""
        with self._progress:
            return bool(self._arrived or self._waiting)

    def keep_claim(self) -> None:
        """Extend the lease of the delivery in progress, so that no other process repeats it."""
        with self._progress:
            claimed = self._claimed
        if claimed is not None:
            try:
                self._outbox.extend(claimed, lease_seconds=CLAIM_SECONDS)
            except LeaseLost:
                logger.warning("memory.claim_lost", extra={"provider": self.name, "delivery": claimed.id})

    def close(self, budget: ShutdownBudget) -> None:
        """Accept no more hooks, deliver what is due within the budget, then shut the provider down."""
        with self._progress:
            if self._budget is None:
                self._budget = budget
        self._wake.set()

    def run_once(self) -> bool:
        """Run the hooks that are ready and deliver one batch; False when there was nothing to do."""
        if not self._ready():
            return False
        did = self._run_hooks()
        if not self._circuit.allows(self._clock.monotonic()):
            return did
        did = self._forget() or did
        if not self._outbox.is_due(self.name):
            return did
        limit = self._limit if self._circuit.state == "closed" else 1
        deliveries = self._outbox.claim(self.name, lease_seconds=CLAIM_SECONDS, limit=limit)
        if not deliveries:
            return did
        self._deliver(deliveries)
        return True

    # the thread

    def _run(self) -> None:
        try:
            while self._should_run():
                self._wake.clear()
                try:
                    did = self.run_once()
                except StoreClosed:
                    break
                except Exception as error:
                    # The store does not work at the moment. The deliveries stay in the outbox.
                    logger.exception("memory.lane_failed", extra={"provider": self.name})
                    self.last_error = error_text(error)
                    did = False
                with self._progress:
                    self._progress.notify_all()
                    closing = self._budget is not None
                if not did:
                    if closing:
                        break
                    self._clock.wait(self._wake, self._pause())
        finally:
            self._shut_down()

    def _should_run(self) -> bool:
        with self._progress:
            return self._budget is None or not self._budget.expired

    def _pause(self) -> float:
        if not self._circuit.allows(self._clock.monotonic()):
            return max(0.0, min(self._circuit.probe_at - self._clock.monotonic(), MAX_WAIT_SECONDS))
        try:
            due = self._outbox.next_due(self.name)
            if due is not None and self._outbox.free_dead_claims(self.name):
                return 0.001
        except Exception:
            logger.exception("memory.lane_failed", extra={"provider": self.name})
            return MAX_WAIT_SECONDS
        longest = min(MAX_WAIT_SECONDS, max(0.001, self._forgettings.pause()))
        if due is None:
            return longest
        return max(0.001, min(due / 1_000_000 - self._clock.now(), longest, CLAIMED_WAIT_SECONDS))

    def _shut_down(self) -> None:
        with self._progress:
            abandoned = [*self._waiting, *self._arrived]
            self._waiting, self._arrived = [], []
        for hook in abandoned:
            if hook.outcome.set_running_or_notify_cancel():
                hook.outcome.set_exception(MemoryClosed(self.name))
        if self._started:
            self._guarded("shutdown", self._provider.shutdown)
        self.finished.set()
        with self._progress:
            self._progress.notify_all()

    # one step

    def _ready(self) -> bool:
        if self._started:
            return True
        if not self._circuit.allows(self._clock.monotonic()):
            return False
        error = self._guarded("initialize", self._start_provider)
        if error is None:
            self._started = True
        else:
            # Nothing works before `initialize`, so the circuit opens at once.
            self._circuit.failures = max(self._circuit.failures, self._policy.failures_to_open - 1)
            self._record_failure(error)
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
            self._run_hook(hook)
            did = True
        return did

    def _run_hook(self, hook: _Hook) -> None:
        try:
            if not hook.outcome.set_running_or_notify_cancel():
                return  # the caller has cancelled it
            result = self._gate.run(hook.what, WRITE_SECONDS, hook.call)
        except BaseException as error:  # noqa: BLE001 - passed on to the caller
            self.last_error = error_text(error)
            hook.outcome.set_exception(error)
        else:
            hook.outcome.set_result(result)
        finally:
            with self._progress:
                self._waiting.remove(hook)

    def _forget(self) -> bool:
        """Carry out one forgetting. Turns that were delivered before it are on the provider already."""
        outcome = self._forgettings.run_once()
        if isinstance(outcome, BaseException):
            self._record_failure(outcome)
        elif outcome:
            self._circuit.succeeded()
        return bool(outcome)

    def _deliver(self, deliveries: Sequence[Delivery]) -> None:
        left = list(deliveries)
        with self._progress:
            self._claimed = deliveries[0]
        try:
            for taken in self._delivery.deliver(deliveries):
                self._mark_delivered(taken)
                del left[: len(taken)]
        except LeaseLost:
            logger.warning("memory.claim_lost", extra={"provider": self.name, "deliveries": len(left)})
            self._give_back(left)
        except CLOSED as refusal:
            # The provider was shut down before the lane; the turn itself is valid.
            logger.info("memory.delivery_refused", extra={"provider": self.name, "deliveries": len(left)})
            self._requeue(left, refusal)
        except BaseException as error:
            if _is_at_exit(error):
                logger.info("memory.delivery_refused", extra={"provider": self.name, "deliveries": len(left)})
            else:
                logger.warning("memory.delivery_failed", exc_info=True, extra={"provider": self.name})
            self._requeue(left, error)
        else:
            self._circuit.succeeded()
            self._limit = min(MAX_BATCH, self._limit * 2)
        finally:
            with self._progress:
                self._claimed = None

    def _mark_delivered(self, taken: Sequence[Delivery]) -> None:
        try:
            self._outbox.mark_delivered(*taken)
        except LeaseLost:
            # One turn was deleted with its conversation; the provider has the others.
            taken = [each for each in taken if self._outbox.is_held(each)]
            if not taken:
                raise
            self._outbox.mark_delivered(*taken)
        self.delivered += len(taken)
        self._circuit.succeeded()

    def _give_back(self, left: Sequence[Delivery]) -> None:
        """Release the deliveries that are still claimed; those of a deleted conversation are gone."""
        for delivery in reversed(left):
            with suppress(LeaseLost):
                self._outbox.give_back(delivery)

    def _requeue(self, left: list[Delivery], error: BaseException) -> None:
        """Put the rest back. It is unknown which turn of a batch failed, so they follow one by one."""
        batched = self._delivery.takes_batches and len(left) > 1
        culprit, rest = (None, left) if batched else (left[0], left[1:])
        for delivery in reversed(rest):
            self._outbox.give_back(delivery)
        if batched or not isinstance(error, Undeliverable):
            self._record_failure(error)
        self._limit = 1
        if culprit is None:
            return
        self.last_error = error_text(error)
        if isinstance(error, Undeliverable) or culprit.attempts >= self._policy.max_attempts:
            self._outbox.set_aside(culprit, error=error_text(error))
        else:
            delay = getattr(error, "retry_after", None) or self._policy.delay(culprit.attempts)
            self._outbox.defer(culprit, delay_seconds=delay, error=error_text(error))

    def _record_failure(self, error: BaseException) -> None:
        self.last_error = error_text(error)
        self._circuit.failed(self._clock.monotonic(), getattr(error, "retry_after", None))

    def _guarded(self, what: str, call: Callable[[], object]) -> BaseException | None:
        """Call the provider; an exception is logged and returned."""
        try:
            self._gate.run(what, WRITE_SECONDS, call)
        except BaseException as error:
            if not isinstance(error, CLOSED) and not _is_at_exit(error):
                logger.warning("memory.provider_failed", exc_info=True, extra={"provider": self.name})
            self.last_error = error_text(error)
            return error
        return None


def _is_at_exit(error: BaseException) -> bool:
    """Whether a provider failed because the program is ending: it can't start the threads it needs."""
    return isinstance(error, RuntimeError) and not can_start_threads()
