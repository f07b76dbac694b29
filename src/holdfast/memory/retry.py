"""Retries: exponential delays with jitter, and a circuit breaker for a provider that is down.

An open circuit lets one probe through at a time, so a provider that is down gets single calls instead of
one for every turn in its backlog.
"""

import random
from dataclasses import dataclass, field

from holdfast.memory.contract import Circuit


@dataclass(frozen=True)
class RetryPolicy:
    """Delays and limits for a provider that fails."""

    initial_delay_seconds: float = 1.0
    max_delay_seconds: float = 300.0
    max_attempts: int = 20
    """How many failed attempts of its own set a turn aside; a failed batch counts for none of its turns."""
    failures_to_open: int = 3

    def delay(self, failures: int) -> float:
        """The delay after this many failures in a row: doubled each time, limited, reduced by up to half."""
        grown = self.initial_delay_seconds * float(2 ** min(max(failures - 1, 0), 30))
        return min(grown, self.max_delay_seconds) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


@dataclass
class CircuitBreaker:
    """Counts the failures in a row over all writes to a provider. Used by the thread of one lane only."""

    policy: RetryPolicy
    failures: int = 0
    probe_at: float = field(default=0.0)

    @property
    def state(self) -> Circuit:
        return "open" if self.failures >= self.policy.failures_to_open else "closed"

    def allows(self, now: float) -> bool:
        """Whether a call may start now: always while closed, else when the next probe is due."""
        return self.state == "closed" or now >= self.probe_at

    def failed(self, now: float, retry_after: float | None = None) -> None:
        self.failures += 1
        pause = self.policy.delay(self.failures) if retry_after is None else retry_after
        self.probe_at = now + pause

    def succeeded(self) -> None:
        self.failures = 0
