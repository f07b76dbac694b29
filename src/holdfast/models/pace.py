"""`Pace`: how often an answer is read while many others stream beside it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """A reading costs about the same however much has come, so the busier, the rarer."""

    few: int = 8
    """Answers that are read as they come."""
    for_each: float = 0.0005
    """Seconds between two readings, for each answer that streams now: a reading may take half of that."""
    longest: float = 0.25

    def pause(self, streaming: int) -> float:
        """Seconds until the next reading."""
        return min(self.longest, streaming * self.for_each) if streaming > self.few else 0.0
