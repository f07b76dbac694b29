"""The groups of errors, by what the caller can do.

Every error raised on purpose is a `HoldfastError`. `Retryable`: the same call may succeed later.
`Refused`: the call doesn't fit the state it met, and the state is unchanged. `StoreFailure`: the store
can't serve, and says what was kept and what to do next. `ModelFailure`: a language model gave no answer.
"""


class HoldfastError(Exception):
    """Root of every error raised on purpose."""


class Retryable(HoldfastError):
    """The same call may succeed later."""


class Refused(HoldfastError):
    """The call doesn't fit the present state. Nothing was changed."""


class InvalidInput(HoldfastError, ValueError):
    """What was passed in can't be stored or understood. Nothing was changed."""


class SettingsInvalid(InvalidInput):
    """A setting is unknown or has a value that doesn't fit."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{name}: {problem}" for name, problem in problems))
        self.problems = problems


class StoreFailure(HoldfastError):
    """The store can't serve. The message says what was kept and what to do next."""


class ModelFailure(HoldfastError):
    """A language model gave no usable answer."""
