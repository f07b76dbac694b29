"""`Secret`: a value that can't be shown by accident.

Logs, events, errors and the database see only the mask. The code that sends the value calls `reveal()`.
"""

import re
from typing import NoReturn

MASK = "••••••"
MIN_MASKED_LENGTH = 8
"""Shorter values are not searched for in texts. Local servers accept any key, such as `x`, and every x would
be masked; servers on the internet never give out such short keys."""

USER = re.compile(r"(?<=://)[^/\s]*@")
"""The user and the password of an address; the last @ before the path ends them."""
SECRET_PARAMETER = re.compile(r"(?i)(?<=[?&])([^=&#\s]*(?:pass|key|token|secret|sig)[^=&#\s]*=)[^&#\s]*")


def without_password(text: str) -> str:
    """A text to be shown, with the mask for passwords and keys that stand in an address."""
    if "://" not in text:
        return text
    return SECRET_PARAMETER.sub(rf"\1{MASK}", USER.sub(f"{MASK}@", text))


class Secret:
    """Holds a key, token or password. Equal to another secret of the same value, never to a string."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself, for the call that needs it."""
        return self._value

    def is_in(self, text: str) -> bool:
        """Whether the text contains the value."""
        return len(self._value) >= MIN_MASKED_LENGTH and self._value in text

    def masked_in(self, text: str) -> str:
        """The text with the mask in place of the value."""
        return text.replace(self._value, MASK) if self.is_in(text) else text

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
