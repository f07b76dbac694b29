"""A secret that can't be shown by accident.

Logs, events, errors and the database only ever see the mask; the value is taken out on purpose, with
`reveal()`, at the one place that sends it.
"""

from typing import NoReturn

MASK = "••••••"


class Secret:
    """Holds a key, token or password. Equal to another secret of the same value, never to a string."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself, for the call that needs it."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(("Secret", self._value))

    def __reduce__(self) -> NoReturn:
        # Pickles, deep copies into queues and crash dumps would carry the value along.
        raise TypeError("a Secret is not serialised; pass the object itself or reveal() it")
