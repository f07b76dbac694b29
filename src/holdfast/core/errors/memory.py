"""What memory raises."""

from holdfast.core.errors.groups import InvalidInput, Refused, Retryable


class ProviderUnavailable(Retryable):
    """A memory provider can't be reached now; what it is owed stays owed."""

    def __init__(self, provider: str, retry_after: float | None = None, problem: str = "") -> None:
        super().__init__(f"{provider} is unavailable: {problem}" if problem else f"{provider} is unavailable")
        self.provider = provider
        self.retry_after = retry_after


class Undeliverable(Refused):
    """A provider will never take this turn; it is set aside at once instead of tried again."""


class ProviderInvalid(InvalidInput):
    """What was given as a memory provider isn't one; it is left out."""

    def __init__(self, provider: str, problem: str) -> None:
        super().__init__(f"memory provider {provider!r} is left out: {problem}")
        self.provider = provider


class ProviderNotWorking(Retryable):
    """A memory provider was tried and did not work."""

    def __init__(self, provider: str, problem: str) -> None:
        super().__init__(f"{provider} does not work now: {problem}")
        self.provider = provider
        self.problem = problem


class MemoryClosed(Refused):
    """Memory is shutting down and takes no more calls."""

    def __init__(self, provider: str) -> None:
        super().__init__(f"the memory provider {provider!r} is shutting down and takes no more calls")
        self.provider = provider


class BoundaryFailed(Retryable):
    """A provider failed at a boundary; the stretch stays uncommitted and is tried again."""

    def __init__(self, failures: dict[str, str]) -> None:
        said = "; ".join(f"{name}: {problem}" for name, problem in failures.items())
        super().__init__(f"not committed to memory: {said}")
        self.failures = failures


class ExtractionFailed(Retryable):
    """No facts could be read from what a model answered; the conversation is kept and asked about again."""
