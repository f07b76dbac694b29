"""`HeldLease`: a lease as its holder keeps it, with the fencing token that is valid now.

A lease that ran out while its holder stood still, and that nobody took meanwhile, is taken up again with a
new token: by the next renewal, or in the very transaction that it guards. One that another took is lost.
"""

from collections.abc import Callable

from holdfast.core.errors import LeaseLost
from holdfast.sessions.codec import checked_seconds
from holdfast.sessions.contract import Lease, Transaction


class HeldLease:
    """One hold of one name. Its methods are steps of a transaction, on any thread.

    Whatever a transaction reads of the lease is locked until it ends, so two threads of one holder can't both
    take it up. A token is ours as soon as we write it: another transaction may see it before we hear of
    the commit. If the store later shows an older token, that write was rolled back and does not count.
    """

    def __init__(self, lease: Lease, ttl_seconds: float) -> None:
        self.name = lease.name
        self.holder = lease.holder
        self.token = lease.token
        """The token as the store was last seen to have it."""
        self._ttl_us = checked_seconds("a lease", ttl_seconds)
        self._tokens = {lease.token}
        self.is_leaving = False
        """Whether its holder has asked the store to let it go: from then on it is not lost."""

    def require(self, tx: Transaction) -> None:
        """Fencing: go on only while nobody else has taken the lease; raises `LeaseLost`."""
        self.require_ahead(tx)()

    def require_ahead(self, tx: Transaction) -> Callable[[], None]:
        """The same for a caller that asks for more before it needs to know; the function raises."""
        locked = tx.queries.ahead.lock_lease(name=self.name)

        def require() -> None:
            if not self._has_time_left(locked()):
                self._take_up(tx)

        return require

    def renew(self, tx: Transaction) -> None:
        """Hold on from now; raises `LeaseLost` when it is another's, or was let go."""
        # One after the other: which token the row has is known only once it is locked.
        if not self._has_time_left(tx.queries.lock_lease(name=self.name)) or not tx.queries.renew_lease(
            name=self.name, holder=self.holder, token=self.token, ttl_us=self._ttl_us
        ):
            self._take_up(tx)

    def release(self, tx: Transaction) -> bool:
        """Let go; False when it is another's by now."""
        try:
            self._has_time_left(tx.queries.lock_lease(name=self.name))
        except LeaseLost:
            return False
        self.release_required(tx)
        return True

    def release_required(self, tx: Transaction) -> None:
        """Let go of a lease that this transaction has required: its row is locked, and this holder's."""
        tx.queries.ahead.release_lease(name=self.name, holder=self.holder, token=self.token)

    def _has_time_left(self, row: tuple[str, int, bool] | None) -> bool:
        """Whether the lease, whose row is locked and which nobody else has taken, is in force."""
        if row is None or row[0] != self.holder or row[1] not in self._tokens:
            raise LeaseLost(self.name, self.holder)
        self.token = row[1]
        # An older token than the last written may still come back: this transaction can be undone, too.
        self._tokens = {token for token in self._tokens if token <= self.token}
        return bool(row[2])

    def _take_up(self, tx: Transaction) -> None:
        """The row is locked and still this holder's."""
        old = self.token
        self._tokens.add(old + 1)
        tx.queries.take_up_lease(name=self.name, holder=self.holder, token=old, ttl_us=self._ttl_us)
        # What a turn asked before the pause is still answered under this lease.
        tx.queries.move_asks(lease=self.name, old=old, new=old + 1)
        self.token = old + 1
