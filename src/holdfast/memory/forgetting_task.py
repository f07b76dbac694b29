"""Carries out forgettings on the write lane of a provider, at least once, until the provider has answered."""

import logging
from collections.abc import Callable
from typing import Literal

from holdfast.core.contract import Clock
from holdfast.core.error_text import cut_words, error_text
from holdfast.core.errors import InvalidInput, Undeliverable
from holdfast.memory.contract import CLOSED, Browsable, MemoryProvider
from holdfast.memory.forgetting import ForgetReport, ForgetRequest, ForgetsSelected
from holdfast.memory.provider_gate import WRITE_SECONDS, GatedProvider
from holdfast.memory.retry import RetryPolicy
from holdfast.sessions import SessionDB
from holdfast.sessions.forgettings import ForgettingTask

logger = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
"""How often the store is asked for forgettings of other processes."""
UNDER_WAY_SECONDS = 1.0


class ForgettingTasks:
    """The forgettings of one provider. Used by its write lane only, except `notify`."""

    def __init__(
        self,
        gated: GatedProvider,
        store: SessionDB,
        clock: Clock,
        policy: RetryPolicy,
        then: Callable[[], None],
    ) -> None:
        """`then` is called after the provider has deleted something, to drop what was recalled before."""
        self._gated = gated
        self._forgettings = store.forgettings
        self._clock = clock
        self._policy = policy
        self._then = then
        self._look_at = 0.0

    def notify(self) -> None:
        """There may be a new forgetting. From any thread."""
        self._look_at = 0.0

    def pause(self) -> float:
        """How long the lane may wait before the next look."""
        return max(0.0, self._look_at - self._clock.monotonic())

    def run_once(self) -> BaseException | bool:
        """Carry out the oldest forgetting that is due.

        False when there is none, the error when the provider failed and will be asked again.
        """
        now = self._clock.monotonic()
        if now < self._look_at:
            return False
        self._look_at = now + LOOK_SECONDS
        task = self._forgettings.next_task(self._gated.name)
        if task is None:
            due = self._forgettings.next_due(self._gated.name)
            if due is not None:
                wait = max(0.0, due / 1_000_000 - self._clock.now())
                self._look_at = min(self._look_at, now + wait)
            return False
        self._look_at = now
        if task.under_way:
            # Another process is delivering one of the turns: it is deleted after it has arrived.
            self._forgettings.defer(task, self._gated.name, delay_seconds=UNDER_WAY_SECONDS, counted=False)
            return True
        return self._carry_out(task)

    def _carry_out(self, task: ForgettingTask) -> BaseException | bool:
        name = self._gated.name
        request = ForgetRequest.of(task.key, task.request, name)
        try:
            report = self._gated.gate.run(
                "forget_selected", WRITE_SECONDS, lambda: forget_in(self._gated, request)
            )
        except CLOSED:
            # The provider was shut down before the lane; the next start goes on.
            self._look_at = self._clock.monotonic() + LOOK_SECONDS
            return False
        except Exception as error:
            # The provider may raise anything.
            logger.warning("memory.forgetting_failed", exc_info=True, extra={"provider": name})
            self._record_failure(task, error)
            return error
        state: Literal["done", "unable"] = "done" if report.forgotten or not report.kept else "unable"
        self._forgettings.settle(task, name, state, forgotten=report.forgotten, note=cut_words(report.kept))
        self._then()
        return True

    def _record_failure(self, task: ForgettingTask, error: Exception) -> None:
        name, text = self._gated.name, error_text(error)
        if isinstance(error, Undeliverable | InvalidInput) or task.attempts + 1 >= self._policy.max_attempts:
            self._forgettings.settle(task, name, "failed", note=text)
            return
        delay = getattr(error, "retry_after", None) or self._policy.delay(task.attempts + 1)
        self._forgettings.defer(task, name, delay_seconds=delay, note=text)


def forget_in(gated: GatedProvider, request: ForgetRequest) -> ForgetReport:
    """Have a provider forget as much as it can, in each scope what belongs to it."""
    reports = [
        _forget_in(gated.of(scope), part)
        for scope, part in request.by_scope().items()
        if gated.serves(scope)  # else it was never told of it
    ]
    kept = "; ".join(dict.fromkeys(each.kept for each in reports if each.kept))
    return ForgetReport(sum(each.forgotten for each in reports), kept)


def _forget_in(provider: MemoryProvider, request: ForgetRequest) -> ForgetReport:
    if isinstance(provider, ForgetsSelected):
        return provider.forget_selected(request)
    forgotten = 0
    if isinstance(provider, Browsable):
        forgotten = sum(provider.forget(int(each)) for each in request.memory_ids)
    what = "single turns" if isinstance(provider, Browsable) else "anything"
    kept = f"it can't forget {what}; what it was told of {_turns(len(request.turns))} stays there"
    return ForgetReport(forgotten, kept if request.turns else "")


def _turns(count: int) -> str:
    return "1 turn" if count == 1 else f"{count} turns"
