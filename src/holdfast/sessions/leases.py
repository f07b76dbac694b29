"""Leases: a name held by one holder until a moment, on the store's own clock.

Each new holder gets a larger token (fencing): whoever lost a lease can't pass for its holder any more.
`HeldLease` in `held_lease.py` is a lease as its holder keeps it, and goes on after a pause; `LeaseKeeper` in
`lease_keeper.py` renews those of a living process.
"""

from hashlib import sha256

from holdfast.core.errors import LeaseLost
from holdfast.sessions.codec import LONGEST_NAME, checked_name, checked_seconds
from holdfast.sessions.contract import Engine, Lease, Operation, Transaction
from holdfast.sessions.held_lease import HeldLease

OF_A_SESSION = ("session", "compression", "boundary")
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

        return self._engine.write(
            Operation("acquire_lease", lambda tx: acquired_lease(tx, name, holder, ttl_us))
        )

    def renew(self, lease: Lease, *, ttl_seconds: float) -> Lease:
        """Hold on for another `ttl_seconds`; raises `LeaseLost` when it ran out or was taken."""
        ttl_us = checked_seconds("a lease", ttl_seconds)

        def work(tx: Transaction) -> Lease:
            row = tx.queries.renew_lease(
                name=lease.name,
                holder=lease.holder,
                token=lease.token,
                ttl_us=ttl_us,
            )
            if row is None:
                raise LeaseLost(lease.name, lease.holder)
            return Lease(*row)

        return self._engine.write(Operation("renew_lease", work))

    def release(self, lease: Lease) -> bool:
        """Let go; False when it was somebody else's by then."""

        def work(tx: Transaction) -> bool:
            return bool(tx.queries.release_lease(name=lease.name, holder=lease.holder, token=lease.token))

        return self._engine.write(Operation("release_lease", work))

    def keep(self, held: HeldLease) -> None:
        """Hold on, also after a pause in which nobody else took it; raises `LeaseLost`."""
        self._engine.write(Operation("renew_lease", held.renew))

    def is_untouched(self, held: HeldLease) -> bool:
        """Whether nobody else took it or let it go, in force or not: its holder can go on."""
        return self._engine.read_once(
            lambda tx: bool(
                tx.queries.is_untouched_lease(name=held.name, holder=held.holder, token=held.token)
            )
        )

    def let_go(self, held: HeldLease) -> bool:
        """Release what is held; False when it was somebody else's by then."""
        return self._engine.write(Operation("release_lease", held.release))

    def current(self, name: str) -> Lease | None:
        """Who holds it now."""
        return self._engine.read_once(lambda tx: current_lease(tx, name))

    def holders(self, purpose: str) -> list[str]:
        """Who holds a lease for this purpose now, whatever it is about."""
        # The names are sorted byte by byte, and a semicolon comes next after a colon.
        first, behind = f"{purpose}:", f"{purpose};"
        return self._engine.read_once(
            lambda tx: [row[0] for row in tx.queries.lease_holders(first=first, behind=behind)]
        )

    def last(self, name: str) -> Lease | None:
        """Who holds it now, or did when it ran out; None once it was let go."""

        def work(tx: Transaction) -> Lease | None:
            row = tx.queries.last_lease(name=name)
            return None if row is None else Lease(*row)

        return self._engine.read_once(work)

    def was_let_go(self, name: str) -> bool:
        """Whether its last holder has released it; False for one that nobody ever took."""
        return self._engine.read_once(lambda tx: bool(tx.queries.was_let_go(name=name)))

    def require_writable(self) -> None:
        """Returns once leases can be written; raises what keeps them from it."""
        # It matches no row, but waits for every lock that a renewal waits for.
        self._engine.write(Operation("release_lease", _release_nothing))


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


def _release_nothing(tx: Transaction) -> None:
    tx.queries.release_lease(name="", holder="", token=0)


def acquired_lease(tx: Transaction, name: str, holder: str, ttl_us: int) -> Lease | None:
    """The lease, taken; None while somebody holds it."""
    row = tx.queries.acquire_lease(name=name, holder=holder, ttl_us=ttl_us)
    return None if row is None else Lease(*row)


def current_lease(tx: Transaction, name: str) -> Lease | None:
    row = tx.queries.current_lease(name=name)
    return None if row is None else Lease(*row)
