"""Keeps a living process's leases alive: one daemon thread renews them long before they run out.

A process that dies renews nothing, so its leases are free within one time to live. One that stood still for
longer takes them up again when it goes on, unless somebody else has.
"""

import logging
import threading

from holdfast.core.contract import Clock
from holdfast.core.errors import LeaseLost, StoreClosed, StoreFailure
from holdfast.sessions.contract import Lease
from holdfast.sessions.held_lease import HeldLease
from holdfast.sessions.leases import Leases

logger = logging.getLogger(__name__)

LEASE_SECONDS = 12.0
"""A node that dies is taken over from within 15 s: that leaves 3 s to find what it held, and to share it."""
RENEWALS_PER_LEASE = 4


class LeaseKeeper:
    """Holds named leases for this process."""

    def __init__(self, leases: Leases, clock: Clock, *, ttl_seconds: float = LEASE_SECONDS) -> None:
        self._leases = leases
        self._clock = clock
        self._ttl = ttl_seconds
        self._lock = threading.Lock()  # guards _held, _unreleased and _thread
        self._held: dict[tuple[str, str], HeldLease] = {}
        self._unreleased: list[HeldLease] = []  # the store failed when they were to be let go
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def acquire(self, name: str, holder: str) -> HeldLease | None:
        """Take a lease and keep it until `release`."""
        lease = self._leases.acquire(name, holder, ttl_seconds=self._ttl)
        return None if lease is None else self.adopt(lease)

    def adopt(self, lease: Lease) -> HeldLease:
        """Renew from now on a lease that was taken for this process."""
        held = HeldLease(lease, self._ttl)
        with self._lock:
            self._held[held.name, held.holder] = held
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="holdfast-leases", daemon=True)
                self._thread.start()
        return held

    def forget(self, lease: HeldLease) -> bool:
        """Stop renewing this very lease; False when it is not held any more."""
        key = lease.name, lease.holder
        with self._lock:
            if self._held.get(key) is not lease:
                return False
            del self._held[key]
            return True

    def require(self, name: str, holder: str) -> HeldLease:
        """Give the lease that this process holds; raises `LeaseLost` when it never did or has lost it."""
        lease = self.held(name, holder)
        if lease is None:
            raise LeaseLost(name, holder)
        return lease

    def held(self, name: str, holder: str) -> HeldLease | None:
        """The lease as this process holds it; None when it never did or has lost it."""
        with self._lock:
            return self._held.get((name, holder))

    def release(self, name: str, holder: str) -> None:
        """Let go. A lease that was lost meanwhile is its new holder's and stays as it is.

        Raises when the store fails; the next renewal tries again.
        """
        with self._lock:
            lease = self._held.pop((name, holder), None)
        if lease is not None:
            self._let_go(lease)

    def renew_once(self) -> None:
        """Renew everything held; what was lost is forgotten and said."""
        with self._lock:
            held = list(self._held.values())
            unreleased, self._unreleased = self._unreleased, []
        work = [*((self._let_go, lease) for lease in unreleased), *((self._renew, lease) for lease in held)]
        for step, lease in work:
            try:
                step(lease)
            except StoreClosed:
                return
            except StoreFailure as cause:
                # The next pass tries again, and takes up what has run out by then.
                logger.warning("lease.renewal_failed", extra={"lease": lease.name, "cause": repr(cause)})

    def holder_of(self, name: str) -> str | None:
        """The holder in this process that has the lease of this name.

        A lease that ran out still counts while nobody else has taken it.
        """
        with self._lock:
            held = [lease for lease in self._held.values() if lease.name == name]
        return next((lease.holder for lease in held if self._leases.is_untouched(lease)), None)

    def close(self) -> None:
        """Stop renewing and release what is still held."""
        self._stop.set()
        with self._lock:
            thread, keys = self._thread, list(self._held)
        if thread is not None:
            thread.join(timeout=1)
        for name, holder in keys:
            try:
                self.release(name, holder)
            except StoreFailure as cause:
                # It runs out by itself.
                logger.warning("lease.release_failed", extra={"lease": name, "cause": repr(cause)})

    def _let_go(self, lease: HeldLease) -> None:
        try:
            self._leases.let_go(lease)
        except StoreFailure:
            with self._lock:
                self._unreleased.append(lease)
            raise

    def _renew(self, lease: HeldLease) -> None:
        before = lease.token
        try:
            self._leases.keep(lease)
        except LeaseLost:
            # One released meanwhile was let go, not lost.
            if self.forget(lease) and not lease.is_leaving:
                logger.warning("lease.lost", extra={"lease": lease.name, "holder": lease.holder})
        else:
            if lease.token != before:
                logger.info("lease.taken_up_again", extra={"lease": lease.name, "token": lease.token})

    def _run(self) -> None:
        while not self._clock.wait(self._stop, self._ttl / RENEWALS_PER_LEASE):
            self.renew_once()
