"""Sortable ids: 26 characters, ordered by the moment of creation, unique across machines.

The form is a ULID: 48 bits of milliseconds, then 80 random bits, in Crockford's base 32. Ids made by
one `IdFactory` in the same millisecond still sort in the order they were made.
"""

import secrets
import threading

from holdfast.core.clock import SystemClock
from holdfast.core.contract import Clock

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
LENGTH = 26
PAIRS = [high + low for high in ALPHABET for low in ALPHABET]
SHIFTS = range(10 * (LENGTH // 2 - 1), -1, -10)
RANDOM_BITS = 80
STRIDE_BITS = 60


class IdFactory:
    """Makes ids that never repeat and never sort before an earlier one of the same factory."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()  # guards _last
        self._last = 0

    def __call__(self) -> str:
        fresh = int(self._clock.now() * 1000) << RANDOM_BITS | secrets.randbits(RANDOM_BITS)
        with self._lock:
            # A clock that stands still or steps back yields a successor of the last id instead: a random
            # one, since a forked process goes on from the same last id.
            if fresh >> RANDOM_BITS <= self._last >> RANDOM_BITS:
                fresh = self._last + 1 + secrets.randbits(STRIDE_BITS)
            self._last = fresh
        return encode(fresh)


def encode(number: int) -> str:
    """Write a number of up to 130 bits as 26 base-32 digits."""
    return "".join([PAIRS[number >> shift & 1023] for shift in SHIFTS])


new_id = IdFactory(SystemClock())
"""Make an id from the machine's clock."""
