"""When to try again: growing, jittered delays, and a circuit that opens when a provider is down.

An open circuit lets one probe through at a time, so a provider that is down costs one call now and then,
not one for every turn it is owed.
"""

import random
from dataclasses import dataclass, field

from holdfast.memory.contract import Circuit


@dataclass(frozen=True)
class RetryPolicy:
    """How patient a lane is with a provider that fails."""

    first_seconds: float = 1.0
    longest_seconds: float = 300.0
    most_attempts: int = 20
    """A turn that failed this often on its own is set aside for a person."""
    failures_to_open: int = 3

    def delay(self, failures: int) -> float:
        """The delay after so many failures in a row: doubled each time, cut, and jittered by half."""
        grown = self.first_seconds * float(2 ** min(max(failures - 1, 0), 30))
        return min(grown, self.longest_seconds) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


@dataclass
class CircuitBreaker:
    """Counts failures in a row over all of a provider's calls. Owned by one lane's thread."""

    policy: RetryPolicy
    failures: int = 0
    probe_at: float = field(default=0.0)

    @property
    def state(self) -> Circuit:
        return "open" if self.failures >= self.policy.failures_to_open else "closed"

    def allows(self, now: float) -> bool:
        """Whether a call may go out now: always while closed, one probe when its time has come."""
        return self.state == "closed" or now >= self.probe_at

    def failed(self, now: float, retry_after: float | None = None) -> None:
        self.failures += 1
        pause = self.policy.delay(self.failures) if retry_after is None else retry_after
        self.probe_at = now + pause

    def succeeded(self) -> None:
        self.failures = 0
