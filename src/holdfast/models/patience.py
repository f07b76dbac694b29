"""`Patient`: tries again around any model, so that a passing fault of a server doesn't end a turn.

Only what may succeed later is tried again, after a growing, jittered wait or after the time that the
server asked for. Every wait is announced with `Retrying`, and a cancellation ends it at once.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime

from holdfast.core.contract import Clock
from holdfast.core.errors import ModelFailure, ModelUnreachable, Retryable
from holdfast.models.completeness import Completeness
from holdfast.models.contract import Model, ModelPiece, ModelRequest, ModelTraits, Retrying

Sleep = Callable[[float], Awaitable[None]]
MOST_DOUBLINGS = 30
FURTHEST = datetime(9999, 1, 1, tzinfo=UTC).timestamp()


@dataclass(frozen=True, slots=True)
class PatiencePolicy:
    """How long a failing server is borne."""

    attempts: int = 6
    """Requests in all, the first one included."""
    total_seconds: float = 300.0
    """From the first failure on, waits and attempts together. No wait begins that would go beyond."""
    first_seconds: float = 1.0
    longest_seconds: float = 60.0

    def delay(self, failures: int, retry_after: float | None, chance: float) -> float:
        """The wait after so many failures; `chance` from 0 to 1 keeps many clients from coming at once."""
        if retry_after is not None:
            return retry_after + chance * min(self.first_seconds, retry_after)
        grown = self.first_seconds * float(2 ** min(failures - 1, MOST_DOUBLINGS))
        return min(grown, self.longest_seconds) * (0.5 + chance / 2)


class Patient:
    """A model that is asked again when it fails in passing."""

    def __init__(
        self,
        model: Model,
        clock: Clock,
        policy: PatiencePolicy | None = None,
        *,
        sleep: Sleep = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._model = model
        self._clock = clock
        self._policy = policy or PatiencePolicy()
        self._sleep = sleep
        self._chance = chance

    @property
    def traits(self) -> ModelTraits:
        return self._model.traits

    async def close(self) -> None:
        await self._model.close()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        """The answer; a `Retrying` in it voids the pieces before, and counts the failures so far."""
        failures = 0
        since = 0.0
        while True:
            try:
                # A model that isn't ours may end without saying so, or say nothing at all.
                answer = Completeness(self.traits.name)
                async with aclosing(self._model.stream(request)) as pieces:
                    async for piece in pieces:
                        yield answer.see(piece)
                answer.end()
            except ModelFailure as cause:
                if not isinstance(cause, Retryable):
                    raise
                failures += 1
                since = since if failures > 1 else self._clock.monotonic()
                delay = self._delay(cause, failures, self._clock.monotonic() - since)
                again = Retrying(failures, delay, str(cause))
            else:
                return
            yield again
            await self._sleep(delay)

    def _delay(self, cause: ModelFailure, failures: int, spent: float) -> float:
        """How long to wait before the next attempt; raises when there is none."""
        policy = self._policy
        left = policy.total_seconds - spent
        wanted = getattr(cause, "retry_after", None)
        if wanted is not None and wanted > left:
            raise self._come_back_later(cause, wanted) from cause
        delay = policy.delay(failures, wanted, self._chance())
        if failures >= policy.attempts or (wanted is None and delay > left):
            tried = f"{failures} attempts in {spent:.0f} s" if failures > 1 else "1 attempt"
            raise _said_more(cause, f" (after {tried})") from cause
        return min(delay, left)

    def _come_back_later(self, cause: ModelFailure, wait: float) -> ModelFailure:
        moment = datetime.fromtimestamp(min(self._clock.now() + wait, FURTHEST), UTC)
        return _said_more(
            cause,
            f". It asks to be left alone for {wait:.0f} s: try again after {moment:%Y-%m-%d %H:%M:%S} UTC",
        )


def _said_more(cause: ModelFailure, more: str) -> ModelFailure:
    if isinstance(cause, ModelUnreachable):
        return type(cause)(cause.model, f"{cause.problem}{more}", cause.retry_after)
    return cause
