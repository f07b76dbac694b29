"""`ReadInterval`: how often an answer is read while many others stream beside it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReadInterval:
    """A read costs about the same for little and for much data, so a busy program reads less often."""

    unpaced: int = 8
    """Up to this many answers are read without a pause."""
    shortest: float = 0.04
    """Seconds between two reads when there are more answers. A person does not notice so short a pause."""
    per_stream: float = 0.00075
    """Seconds for each answer that streams now. To process one read takes about half of that."""
    longest: float = 0.25

    def pause(self, streaming: int) -> float:
        """Seconds until the next read."""
        if streaming <= self.unpaced:
            return 0.0
        return min(self.longest, max(self.shortest, streaming * self.per_stream))
