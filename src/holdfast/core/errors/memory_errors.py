"""Errors of memory and its providers."""

from holdfast.core.errors.groups import InvalidInput, Refused, Retryable


class ProviderUnavailable(Retryable):
    """A memory provider can't be reached now. Its deliveries stay in the outbox."""

    def __init__(self, provider: str, retry_after: float | None = None, problem: str = "") -> None:
        super().__init__(f"{provider} is unavailable: {problem}" if problem else f"{provider} is unavailable")
        self.provider = provider
        self.retry_after = retry_after


class ProviderLate(ProviderUnavailable):
    """A call to a memory provider exceeded its time limit. The provider is skipped until the call returns."""

    def __init__(self, provider: str, call: str, seconds: float) -> None:
        Retryable.__init__(self, f"{provider} did not answer in {seconds:g} s ({call})")
        self.provider = provider
        self.retry_after = None
        self.call = call
        self.seconds = seconds


class Undeliverable(Refused):
    """A provider will never accept this turn. The delivery is set aside and not retried."""


class ScopeNotKept(Undeliverable):
    """A provider that can't keep people apart was asked for somebody who is not the owner."""

    def __init__(self, provider: str) -> None:
        super().__init__(f"{provider} can't keep people apart; it is used in the owner's conversations alone")
        self.provider = provider


class ProviderInvalid(InvalidInput):
    """An object or plugin is not a usable memory provider."""

    def __init__(self, provider: str, problem: str) -> None:
        super().__init__(f"memory provider {provider!r} can't be used: {problem}")
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
    """A provider failed at a session boundary. The turns stay uncommitted and are tried again."""

    def __init__(self, failures: dict[str, str]) -> None:
        problems = "; ".join(f"{name}: {problem}" for name, problem in failures.items())
        super().__init__(f"not committed to memory: {problems}")
        self.failures = failures


class ExtractionFailed(Retryable):
    """The model's answer held no readable facts. The conversation is kept, and the model is asked again."""
