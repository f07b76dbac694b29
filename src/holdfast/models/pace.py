"""`Pace`: how often an answer is read while many others stream beside it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """A reading costs about the same however much has come, so the busier, the rarer."""

    few: int = 8
    """Answers that are read as they come."""
    shortest: float = 0.04
    """Seconds between two readings when there are more: still too quick for the eye."""
    for_each: float = 0.00075
    """Seconds for each answer that streams now: what follows from a reading takes about half as long."""
    longest: float = 0.25

    def pause(self, streaming: int) -> float:
        """Seconds until the next reading."""
        if streaming <= self.few:
            return 0.0
        return min(self.longest, max(self.shortest, streaming * self.for_each))
