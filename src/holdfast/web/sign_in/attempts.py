"""`Attempts`: how often somebody may try to sign in, by the name and by the client's address.

The first attempts are free; each further one must wait, and each pause is twice the one before. An attempt
counts when it begins, so that many at once are not free. Each process of a server counts by itself.
"""

import ipaddress
import unicodedata
from collections import OrderedDict
from dataclasses import dataclass

from holdfast.core.contract import Clock

MOST_KEPT = 10_000
QUIET_SECONDS = 3600.0
"""After this time without an attempt, the attempts of before are forgotten."""
SITE_BITS = 64
"""Whoever has one address of IPv6 has a whole network of this prefix."""


@dataclass(frozen=True, slots=True)
class Pauses:
    """How many attempts are free, and the longest pause after them."""

    free: int
    longest: float

    def after(self, attempts: int) -> float:
        """The seconds to wait after so many attempts."""
        over = attempts - self.free
        return 0.0 if over < 0 else min(self.longest, 2.0 ** min(over, 20))


BY_NAME = Pauses(free=5, longest=60.0)
"""Not longer: a stranger who tries all day must not lock the person out."""
BY_CLIENT = Pauses(free=20, longest=900.0)


@dataclass(slots=True)
class _Count:
    attempts: int
    since: float


class Attempts:
    """The attempts of the last hour. It lives on the loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._names: OrderedDict[str, _Count] = OrderedDict()
        self._clients: OrderedDict[str, _Count] = OrderedDict()

    def begin(self, name: str | None, client: str) -> float:
        """Count an attempt and return 0, or the seconds until one is allowed; such a one does not count.

        The name is None where it becomes known only at the end.
        """
        now = self._clock.monotonic()
        counts = [(self._clients, _site(client), BY_CLIENT)]
        if name is not None:
            counts.append((self._names, _folded(name), BY_NAME))
        wait = max(_wait(kept.get(key), pauses, now) for kept, key, pauses in counts)
        if wait > 0:
            return wait
        for kept, key, _ in counts:
            before = kept.pop(key, None)
            fresh = before is None or now - before.since > QUIET_SECONDS
            kept[key] = _Count(1 if before is None or fresh else before.attempts + 1, now)
            if len(kept) > MOST_KEPT:
                kept.popitem(last=False)
        return 0.0

    def succeeded(self, name: str | None, client: str) -> None:
        """Forget the attempts for this name. Those of the client stay, less this one."""
        if name is not None:
            self._names.pop(_folded(name), None)
        count = self._clients.get(_site(client))
        if count is not None:
            count.attempts -= 1


def _wait(count: _Count | None, pauses: Pauses, now: float) -> float:
    if count is None or now - count.since > QUIET_SECONDS:
        return 0.0
    return max(0.0, count.since + pauses.after(count.attempts) - now)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


def _site(client: str) -> str:
    try:
        address = ipaddress.ip_address(client.partition("%")[0])
    except ValueError:
        return client
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, SITE_BITS), strict=False))
    return str(getattr(address, "ipv4_mapped", None) or address)
