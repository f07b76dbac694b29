"""Sortable ids: 26 characters, ordered by the moment of creation, unique across machines.

The form is a ULID: 48 bits of milliseconds, then 80 random bits, in Crockford's base 32. Ids made by
one `IdFactory` in the same millisecond still sort in the order they were made.
"""

import os
import threading
from hashlib import sha256

from holdfast.core.clock import SystemClock
from holdfast.core.contract import Clock

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
LENGTH = 26
SHIFTS = range(5 * (LENGTH - 1), -1, -5)
RANDOM_BYTES = 10
RANDOM_BITS = 8 * RANDOM_BYTES
STRIDE = 2**60 - 1


class IdFactory:
    """Makes ids that never repeat and never sort before an earlier one of the same factory."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()  # guards _last
        self._last = 0

    def __call__(self) -> str:
        moment = int(self._clock.now() * 1000)
        chance = int.from_bytes(os.urandom(RANDOM_BYTES))
        with self._lock:
            # When the clock stands still or steps back, the id follows the last one by a random distance,
            # because a forked process continues from the same last id.
            if moment <= self._last >> RANDOM_BITS:
                self._last += 1 + (chance & STRIDE)
            else:
                self._last = moment << RANDOM_BITS | chance
            return encode(self._last)


def encode(number: int) -> str:
    """Write a number of up to 130 bits as 26 base-32 digits."""
    return "".join([ALPHABET[number >> shift & 31] for shift in SHIFTS])


def id_for(*parts: str) -> str:
    """An id that is always the same for the same texts, so that a repeated request makes nothing twice."""
    digest = sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()
    return encode(int.from_bytes(digest) & (1 << 128) - 1)


new_id = IdFactory(SystemClock())
"""Make an id from the machine's clock."""
