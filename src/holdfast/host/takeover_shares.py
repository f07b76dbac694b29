"""`TakeoverShares`: which of several living hosts takes over which conversation first.

Each host that takes conversations over holds a lease that says so. A digest of a host's name and a
conversation's gives each conversation one of these hosts, the same in the eyes of all, so no host takes all
that a dead one left. A host that is new or gone changes only its own share.
"""

from collections.abc import Collection
from hashlib import sha256

from holdfast.process import is_provably_gone
from holdfast.sessions import SessionDB
from holdfast.sessions.leases import lease_name

PURPOSE = "takeover"


class TakeoverShares:
    """The share of one host. Its methods block on the store."""

    def __init__(self, db: SessionDB, holder: str) -> None:
        self._db = db
        self._holder = holder
        self._lease = lease_name(PURPOSE, holder)
        self._has_left = False

    def join(self) -> None:
        """Take part, also again after the lease was lost."""
        if not self._has_left and self._db.keeper.held(self._lease, self._holder) is None:
            self._db.keeper.acquire(self._lease, self._holder)

    def leave(self) -> None:
        """Take no part any more."""
        self._has_left = True
        self._db.keeper.release(self._lease, self._holder)

    def own(self, roots: Collection[str]) -> set[str]:
        """The conversations that this host takes before others do."""
        if not roots:
            return set()
        living = {each for each in self._db.leases.holders(PURPOSE) if not is_provably_gone(each)}
        others = living - {self._holder}
        return {root for root in roots if all(self._is_before(each, root) for each in others)}

    def _is_before(self, other: str, root: str) -> bool:
        return _weight(self._holder, root) > _weight(other, root)


def _weight(holder: str, root: str) -> bytes:
    return sha256(f"{holder} {root}".encode(errors="surrogatepass")).digest()
