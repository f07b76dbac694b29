"""`RetryingModel`: repeats failed requests of any model, so that a temporary failure doesn't end a turn.

Only `Retryable` failures are repeated, after a growing wait with jitter, or after the time that the server
asked for. A `Retrying` piece announces every wait, and a cancellation ends the wait at once.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime

from holdfast.core.contract import Clock
from holdfast.core.error_text import error_words
from holdfast.core.errors import ModelFailure, ModelUnreachable, Retryable
from holdfast.models.completeness import Completeness
from holdfast.models.contract import Model, ModelPiece, ModelRequest, ModelTraits, Retrying

Sleep = Callable[[float], Awaitable[None]]
MAX_DOUBLINGS = 30
LATEST_MOMENT = datetime(9999, 1, 1, tzinfo=UTC).timestamp()


@dataclass(frozen=True, slots=True)
class ModelRetryPolicy:
    """How often and how long a failing request is repeated."""

    attempts: int = 6
    """Requests in all, the first one included."""
    total_seconds: float = 300.0
    """The limit for waits and attempts together, from the first failure on.

    No wait begins that would exceed it.
    """
    first_seconds: float = 1.0
    longest_seconds: float = 60.0

    def delay(self, failures: int, retry_after: float | None, chance: float) -> float:
        """The wait after this many failures. `chance`, from 0 to 1, spreads the retries of many clients."""
        if retry_after is not None:
            return retry_after + chance * min(self.first_seconds, retry_after)
        grown = self.first_seconds * float(2 ** min(failures - 1, MAX_DOUBLINGS))
        return min(grown, self.longest_seconds) * (0.5 + chance / 2)


class RetryingModel:
    """A model whose failed requests are repeated."""

    def __init__(
        self,
        model: Model,
        clock: Clock,
        policy: ModelRetryPolicy | None = None,
        *,
        sleep: Sleep = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._model = model
        self._clock = clock
        self._policy = policy or ModelRetryPolicy()
        self._sleep = sleep
        self._chance = chance

    @property
    def traits(self) -> ModelTraits:
        return self._model.traits

    async def close(self) -> None:
        await self._model.close()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        """Stream the answer, and ask again after a failure that passes.

        A `Retrying` piece voids the pieces before it and has the number of failures.
        """
        failures = 0
        since = 0.0
        while True:
            try:
                # A third-party model may end without `Finished`, or give an empty answer.
                answer = Completeness(self.traits.name)
                async with aclosing(self._model.stream(request)) as pieces:
                    async for piece in pieces:
                        yield answer.check(piece)
                answer.end()
            except ModelFailure as cause:
                if not isinstance(cause, Retryable):
                    raise
                failures += 1
                since = since if failures > 1 else self._clock.monotonic()
                delay = self._delay(cause, failures, self._clock.monotonic() - since)
                again = Retrying(failures, delay, error_words(cause))
            else:
                return
            yield again
            await self._sleep(delay)

    def _delay(self, cause: ModelFailure, failures: int, spent: float) -> float:
        """How long to wait before the next attempt; raises the failure when there is no other attempt."""
        policy = self._policy
        left = policy.total_seconds - spent
        wanted = getattr(cause, "retry_after", None)
        if wanted is not None and wanted > left:
            raise self._retry_later(cause, wanted) from cause
        delay = policy.delay(failures, wanted, self._chance())
        if failures >= policy.attempts or (wanted is None and delay > left):
            tried = f"{failures} attempts in {spent:.0f} s" if failures > 1 else "1 attempt"
            raise _with_detail(cause, f" (after {tried})") from cause
        return min(delay, left)

    def _retry_later(self, cause: ModelFailure, wait: float) -> ModelFailure:
        moment = datetime.fromtimestamp(min(self._clock.now() + wait, LATEST_MOMENT), UTC)
        return _with_detail(
            cause,
            f". It asks to wait for {wait:.0f} s: try again after {moment:%Y-%m-%d %H:%M:%S} UTC",
        )


def _with_detail(cause: ModelFailure, detail: str) -> ModelFailure:
    if isinstance(cause, ModelUnreachable):
        return type(cause)(cause.model, f"{cause.problem}{detail}", cause.retry_after)
    return cause
