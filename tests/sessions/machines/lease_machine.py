"""The lease machine: holders on several processes that stall, die and come back late.

A lease object outlives the lease: every rule may use one that was lost long ago. A lock that ran out and that
nobody took is taken up again by the holder's next step, with a new token.
"""

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.core.errors import AlreadyContinued, LeaseLost
from holdfast.sessions import Lease, SessionDB
from holdfast.sessions.lease_keeper import LEASE_SECONDS
from holdfast.sessions.leases import compression_lock
from holdfast.testing.faults import Moment
from tests.sessions.machines.store_processes import NewDatabase, StoreProcesses

PROCESSES = 3
SESSIONS = ("s1", "s2")
NOBODY = "nobody"

who = st.integers(0, PROCESSES - 1)
crash: st.SearchStrategy[Moment | None] = st.sampled_from([None, None, "before", "after"])
pick = st.sampled_from([0, 0, 0, 1, 2, 3, 5])
sessions = st.sampled_from(SESSIONS)
ttls = st.sampled_from([5, 15, 60])
delays = st.sampled_from([0, 0, 4, 5, 15])


@dataclass
class ModelLease:
    """Who holds a name, with which token, and until when."""

    holder: str | None = None
    token: int = 0
    expires: int = 0


class LeaseMachine(RuleBasedStateMachine):
    """At most one holder at any time; who lost a lease can't pass for its holder."""

    def __init__(self, new_database: NewDatabase) -> None:
        super().__init__()
        self.database = new_database()
        self.processes = StoreProcesses(self.database, PROCESSES)
        self.now = 0
        self.model = {session: ModelLease() for session in SESSIONS}
        self.children: dict[str, str] = {}
        self.granted: list[Lease] = []
        self.locks: dict[tuple[int, str], int] = {}
        """Compression locks as each living process believes to hold them, with their tokens."""

    def teardown(self) -> None:
        self.processes.tidy()

    @initialize()
    def begin(self) -> None:
        for session in SESSIONS:
            self.processes.db(0).create_session(session, source="test")

    # the model

    def holder(self, session: str) -> str | None:
        lease = self.model[session]
        return lease.holder if lease.expires > self.now else None

    def grant(self, session: str, holder: str, ttl: int) -> None:
        lease = self.model[session]
        assert self.holder(session) is None
        lease.holder, lease.token, lease.expires = holder, lease.token + 1, self.now + ttl

    def in_force(self, lease: Lease) -> bool:
        session = lease.name.removeprefix("compression:")
        known = self.model[session]
        return (lease.holder, lease.token) == (known.holder, known.token) and known.expires > self.now

    def bury(self, who: int) -> None:
        self.locks = {lock: token for lock, token in self.locks.items() if lock[0] != who}

    def take_up(self, who: int, session: str) -> None:
        """What a step of a holder does to its lock first: nothing, a new token, or it is lost."""
        known = self.model[session]
        if not self.is_untouched(who, session):
            raise LeaseLost(compression_lock(session), f"compactor {who}")
        if known.expires <= self.now:
            known.token, known.expires = known.token + 1, self.now + int(LEASE_SECONDS)
            self.locks[who, session] = known.token

    def is_untouched(self, who: int, session: str) -> bool:
        known = self.model[session]
        return (known.holder, known.token) == (f"compactor {who}", self.locks.get((who, session)))

    # plain leases

    @rule(who=who, crash=crash, session=sessions, ttl=ttls)
    def acquire(self, who: int, crash: Moment | None, session: str, ttl: int) -> None:
        free = self.holder(session) is None
        holder = f"p{who}"
        lives = len(self.processes.dead)

        def model() -> None:
            if free:
                self.grant(session, holder, ttl)

        lease = self.processes.step(
            who,
            crash,
            lambda db: db.leases.acquire(compression_lock(session), holder, ttl_seconds=ttl),
            model,
        )
        if len(self.processes.dead) > lives:
            self.bury(who)
            return
        assert (lease is not None) == free
        if lease is not None:
            assert lease.token > max(
                (each.token for each in self.granted if each.name == lease.name), default=0
            )
            self.granted.append(lease)

    @precondition(lambda self: self.granted)
    @rule(who=who, crash=crash, back=pick, ttl=ttls, delay=delays)
    def renew(self, who: int, crash: Moment | None, back: int, ttl: int, delay: int) -> None:
        self.time_passes(delay)
        lease = self.granted[-1 - back % len(self.granted)]

        def model() -> None:
            if not self.in_force(lease):
                raise LeaseLost(lease.name, lease.holder)
            self.model[lease.name.removeprefix("compression:")].expires = self.now + ttl

        lives = len(self.processes.dead)
        self.processes.step(who, crash, lambda db: db.leases.renew(lease, ttl_seconds=ttl), model)
        if len(self.processes.dead) > lives:
            self.bury(who)

    @precondition(lambda self: self.granted)
    @rule(who=who, crash=crash, back=pick)
    def release(self, who: int, crash: Moment | None, back: int) -> None:
        lease = self.granted[-1 - back % len(self.granted)]
        known = self.model[lease.name.removeprefix("compression:")]
        mine = (lease.holder, lease.token) == (known.holder, known.token)

        def model() -> None:
            if mine:
                known.holder = None

        lives = len(self.processes.dead)
        released = self.processes.step(who, crash, lambda db: db.leases.release(lease), model)
        if len(self.processes.dead) > lives:
            self.bury(who)
        else:
            assert released == mine

    # the compression lock

    @rule(who=who, crash=crash, session=sessions)
    def lock(self, who: int, crash: Moment | None, session: str) -> None:
        free = self.holder(session) is None
        lives = len(self.processes.dead)

        def model() -> None:
            if free:
                self.grant(session, f"compactor {who}", int(LEASE_SECONDS))

        locked = self.processes.step(
            who,
            crash,
            lambda db: db.try_acquire_compression_lock(session, f"compactor {who}"),
            model,
        )
        if len(self.processes.dead) > lives:
            self.bury(who)
            return
        assert locked == free
        if locked:
            self.locks[who, session] = self.model[session].token

    @rule(who=who, session=sessions)
    def unlock(self, who: int, session: str) -> None:
        self.processes.db(who).release_compression_lock(session, f"compactor {who}")
        known = self.model[session]
        if self.is_untouched(who, session):
            known.holder = None
        self.locks.pop((who, session), None)

    @rule(who=who, delay=delays)
    def renew_what_is_held(self, who: int, delay: int) -> None:
        self.time_passes(delay)
        self.processes.db(who).keeper.renew_once()
        for holding, session in [lock for lock in self.locks if lock[0] == who]:
            try:
                self.take_up(holding, session)
            except LeaseLost:
                del self.locks[holding, session]
            else:
                self.model[session].expires = self.now + int(LEASE_SECONDS)

    @rule(who=who, crash=crash, session=sessions, back=pick, delay=delays)
    def rotate_as_holder(self, who: int, crash: Moment | None, session: str, back: int, delay: int) -> None:
        self.time_passes(delay)
        believers = [*sorted(self.locks), (who, session)]
        who, session = believers[back % len(believers)]
        holder = f"compactor {who}"
        child = f"{session} child {self.now} {len(self.granted)} {who}"

        def call(db: SessionDB) -> None:
            db.rotate(session, child, [], carry_from=0, holder=holder)

        def model() -> None:
            if (who, session) not in self.locks:
                raise LeaseLost(compression_lock(session), holder)
            if session in self.children:
                raise AlreadyContinued(session, self.children[session])
            self.take_up(who, session)
            self.children[session] = child

        lives = len(self.processes.dead)
        self.processes.step(who, crash, call, model)
        if len(self.processes.dead) > lives:
            self.bury(who)

    # the world

    @rule(who=who)
    def dies(self, who: int) -> None:
        self.processes.bury(who)
        self.bury(who)

    @rule(who=who)
    def stops_cleanly(self, who: int) -> None:
        for holding, session in list(self.locks):
            if holding == who and self.is_untouched(who, session):
                self.model[session].holder = None
        self.processes.restart(who)
        self.bury(who)

    @rule(seconds=st.sampled_from([1, 4, 5, 14, 15, 16, 60]))
    def time_passes(self, seconds: int) -> None:
        self.database.clock.advance(seconds)
        self.now += seconds

    @invariant()
    def every_process_sees_the_one_holder(self) -> None:
        for who in range(PROCESSES):
            db = self.processes.db(who)
            for session in SESSIONS:
                assert db.get_compression_lock_holder(session) == self.holder(session)
                lease = db.leases.current(compression_lock(session))
                assert lease is None or lease.token == self.model[session].token

    @invariant()
    def at_most_one_child(self) -> None:
        db = self.processes.db(0)
        for session in SESSIONS:
            child = self.children.get(session)
            assert db.children(session) == ([] if child is None else [child])
