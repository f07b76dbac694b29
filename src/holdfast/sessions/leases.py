"""Leases: a name held by one holder until a moment, on the store's own clock.

Each new holder gets a larger token (fencing): whoever lost a lease can't pass for its holder any more.
`LeaseKeeper` in `lease_keeper.py` renews the leases of a living process.
"""

from hashlib import sha256

from holdfast.core.errors import LeaseLost
from holdfast.sessions.codec import LONGEST_NAME, checked_name, checked_seconds
from holdfast.sessions.contract import Engine, Lease, Transaction

OF_A_SESSION = ("session", "compression")
OF_A_TURN = ("stop",)
"""What leases are for, by what they are named after: all of a conversation's go when it is deleted."""


class Leases:
    """Acquire, renew, release, look."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def acquire(self, name: str, holder: str, *, ttl_seconds: float) -> Lease | None:
        """The lease, or None while somebody holds it (the same holder included)."""
        checked_name("a lease's name", name)
        checked_name("a lease's holder", holder)
        ttl_us = checked_seconds("a lease", ttl_seconds)

        def work(tx: Transaction) -> Lease | None:
            row = tx.queries.acquire_lease(tx.connection, name=name, holder=holder, ttl_us=ttl_us)
            return None if row is None else Lease(*row)

        return self._engine.write(work)

    def renew(self, lease: Lease, *, ttl_seconds: float) -> Lease:
        """Hold on for another `ttl_seconds`; raises `LeaseLost` when it ran out or was taken."""
        ttl_us = checked_seconds("a lease", ttl_seconds)

        def work(tx: Transaction) -> Lease:
            row = tx.queries.renew_lease(
                tx.connection,
                name=lease.name,
                holder=lease.holder,
                token=lease.token,
                ttl_us=ttl_us,
            )
            if row is None:
                raise LeaseLost(lease.name, lease.holder)
            return Lease(*row)

        return self._engine.write(work)

    def release(self, lease: Lease) -> bool:
        """Let go; False when it was somebody else's by then."""
        return self._engine.write(
            lambda tx: bool(
                tx.queries.release_lease(
                    tx.connection, name=lease.name, holder=lease.holder, token=lease.token
                )
            )
        )

    def current(self, name: str) -> Lease | None:
        """Who holds it now."""
        return self._engine.read(lambda tx: current_lease(tx, name))

    def in_force(self, purpose: str) -> set[str]:
        """The names of all leases for this purpose that somebody holds now."""
        pattern = lease_name(purpose, "%")
        return self._engine.read(
            lambda tx: {row[0] for row in tx.queries.leases_in_force(tx.connection, pattern=pattern)}
        )


def lease_name(purpose: str, session_id: str) -> str:
    """The name of the lease that guards one thing about a session."""
    name = f"{purpose}:{session_id}"
    if len(name) <= LONGEST_NAME:
        return name
    # The longest ids leave no room for the purpose.
    return f"{purpose}:{sha256(session_id.encode(errors='surrogatepass')).hexdigest()}"


def compression_lock(session_id: str) -> str:
    """The name of the lease that guards a session's compaction."""
    return lease_name("compression", session_id)


def session_lease(root_id: str) -> str:
    """The name of the lease under which a conversation, known by its first session, is run."""
    return lease_name("session", root_id)


def current_lease(tx: Transaction, name: str) -> Lease | None:
    row = tx.queries.current_lease(tx.connection, name=name)
    return None if row is None else Lease(*row)


def require_lease(tx: Transaction, lease: Lease) -> None:
    """Fencing: go on only while this very lease is in force."""
    # Locked until the transaction ends, so that nobody takes it over in between.
    row = tx.queries.lock_lease(tx.connection, name=lease.name)
    current = None if row is None else Lease(*row)
    if current is None or (current.holder, current.token) != (lease.holder, lease.token):
        raise LeaseLost(lease.name, lease.holder)
