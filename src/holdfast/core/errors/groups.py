"""The groups of errors, by what the caller can do.

Every error raised on purpose is a `HoldfastError`. `Retryable`: the same call may succeed later. `Refused`:
the call doesn't fit the present state, and nothing was changed. `StoreFailure`: the store failed, and the
message says what was kept and what to do next. `ModelFailure`: a language model gave no answer.
"""


class HoldfastError(Exception):
    """Root of every error raised on purpose."""


class Retryable(HoldfastError):
    """The same call may succeed later."""


class Refused(HoldfastError):
    """The call doesn't fit the present state. Nothing was changed."""


class IllegalTransition(Refused):
    """A state machine was given an event that its table does not have for its state."""

    def __init__(self, machine: str, state: str, event: str) -> None:
        super().__init__(f"the {machine} can't {event!r} while it is {state!r}")
        self.machine = machine
        self.state = state
        self.event = event


class InvalidInput(HoldfastError, ValueError):
    """The arguments can't be stored or understood. Nothing was changed."""


class SettingsInvalid(InvalidInput):
    """A setting is unknown or has a value that doesn't fit."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{name}: {problem}" for name, problem in problems))
        self.problems = problems


class StoreFailure(HoldfastError):
    """The store failed. The message says what was kept and what to do next."""


class ModelFailure(HoldfastError):
    """A language model gave no usable answer."""
