"""The outbox machine: several workers claim, deliver, fail, come too late and die.

A worker delivers what it claimed in order. It drops the rest of its claim when it lost a lease, and the
rest of a session when that session's head must wait.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.core.errors import LeaseLost
from holdfast.sessions import Delivery, SessionDB
from holdfast.sessions.contract import SECOND
from holdfast.testing.faults import Moment
from tests.sessions.machines.outbox_model import OPEN, ModelDelivery, ModelOutbox, Provider
from tests.sessions.machines.store_processes import NewDatabase, StoreProcesses
from tests.sessions.store_fixtures import LEASE, claim_for_the_dead

WORKERS = 3
SESSIONS = ("s1", "s2")
PROVIDERS = ("alpha", "beta")
LATE_PROVIDER = "gamma"

who = st.integers(0, WORKERS - 1)
crash: st.SearchStrategy[Moment | None] = st.sampled_from([None, None, None, "before", "after"])
pick = st.sampled_from([0, 0, 0, 1, 2, 3, 5])
sessions = st.sampled_from(SESSIONS)
leases = st.sampled_from([10, 60])

Call = Callable[[SessionDB], object]
Effect = Callable[[], object]


@dataclass
class InHand:
    """A claimed delivery that its worker has not settled yet."""

    delivery: Delivery
    claim: int

    @property
    def lost(self) -> LeaseLost:
        return LeaseLost(f"delivery {self.delivery.id}", str(self.delivery.lease))


class OutboxMachine(RuleBasedStateMachine):
    """Every turn reaches its providers at least once, in order, whatever happens on the way."""

    def __init__(self, new_database: NewDatabase) -> None:
        super().__init__()
        self.database = new_database()
        self.processes = StoreProcesses(self.database, WORKERS)
        self.model = ModelOutbox()
        self.provider = Provider()
        self.hands: list[list[InHand]] = [[] for _ in range(WORKERS)]
        self.turns: list[str] = []
        self.numbers = count(1)
        self.epoch = 0
        self.dead_claims: defaultdict[str, set[int]] = defaultdict(set)

    def step(self, who: int, crash: Moment | None, call: Call, model: Effect) -> bool:
        """True when the call returned; a dead worker's hand is empty."""
        lives, settled = len(self.processes.dead), []

        def noted() -> None:
            model()
            settled.append(True)

        self.processes.step(who, crash, call, noted)
        if len(self.processes.dead) > lives:
            self.hands[who] = []
            return False
        return bool(settled)

    def text(self, turn_id: str) -> str:
        return f"what was said in {turn_id}"

    # owing

    @initialize()
    def begin(self) -> None:
        for session in SESSIONS:
            self.epoch = self.processes.db(0).create_session(session, source="test").started
        for _ in range(3):
            self.record(0, None, SESSIONS[0], PROVIDERS)

    @rule(who=who, crash=crash, session=sessions, names=st.sampled_from([PROVIDERS, ("alpha",)]))
    def record(self, who: int, crash: Moment | None, session: str, names: tuple[str, ...]) -> None:
        turn = f"t{next(self.numbers)}"
        db = self.processes.db(who)
        running = db.turns.running(session)
        if running is not None:
            db.turns.interrupt(running.id, "its process died")
        db.turns.open(session, {"role": "user", "content": self.text(turn)}, turn_id=turn)

        def model() -> None:
            self.turns.append(turn)
            self.owe(session, turn, names)

        self.step(who, crash, lambda db: db.turns.complete(turn, providers=names), model)

    @precondition(lambda self: self.turns)
    @rule(who=who, crash=crash, back=pick)
    def owe_to_a_late_provider(self, who: int, crash: Moment | None, back: int) -> None:
        turn = self.turns[-1 - back % len(self.turns)]
        session = next(row.session_id for row in self.model.rows.values() if row.turn_id == turn)
        known = any((row.turn_id, row.provider) == (turn, LATE_PROVIDER) for row in self.model.rows.values())

        def model() -> None:
            if not known:
                self.owe(session, turn, (LATE_PROVIDER,))

        self.step(who, crash, lambda db: db.outbox.enqueue(turn, LATE_PROVIDER), model)

    def owe(self, session: str, turn: str, names: tuple[str, ...]) -> None:
        last = max(self.model.rows, default=0)
        stored = self.processes.db(0).outbox.list("owed", after=last)
        assert [(row.session_id, row.turn_id, row.provider) for row in stored] == [
            (session, turn, name) for name in names
        ]
        for row in stored:
            self.model.rows[row.id] = ModelDelivery(row.id, session, turn, row.provider, due=self.model.now)

    # delivering

    @precondition(lambda self: not all(self.hands) and self.providers_with_work())
    @rule(who=who, crash=crash, back=pick, limit=st.sampled_from([3, 2, 1, 4]), lease=leases)
    def claim(self, who: int, crash: Moment | None, back: int, limit: int, lease: int) -> None:
        while self.hands[who]:
            who = (who + 1) % WORKERS
        names = self.providers_with_work()
        provider = names[back % len(names)]
        number = next(self.numbers)
        expected = self.model.claimable(provider, limit)
        claimed: list[Delivery] = []

        def call(db: SessionDB) -> None:
            claimed.extend(db.outbox.claim(provider, lease_seconds=lease, limit=limit))

        done = self.step(who, crash, call, lambda: self.model.claim(expected, number, lease))
        if done:
            assert [each.id for each in claimed] == [row.id for row in expected]
            assert [each.attempts for each in claimed] == [row.attempts for row in expected]
            self.hands[who] = [InHand(each, number) for each in claimed]

    def providers_with_work(self) -> list[str]:
        return [name for name in (*PROVIDERS, LATE_PROVIDER) if self.model.claimable(name, limit=1)]

    @precondition(lambda self: any(self.hands))
    @rule(who=who, crash=crash)
    def deliver(self, who: int, crash: Moment | None) -> None:
        who, held = self.someone_with_work(who)
        row = self.model.rows[held.delivery.id]
        self.send(row)
        self.settle(
            who,
            crash,
            lambda db: db.outbox.mark_delivered(held.delivery),
            lambda: self.model.settle(row, held.claim, held.lost),
        )

    @precondition(lambda self: any(self.hands))
    @rule(who=who, crash=crash, sent=st.booleans(), delay=st.sampled_from([0, 0, 5, 100]))
    def defer(self, who: int, crash: Moment | None, sent: bool, delay: int) -> None:
        who, held = self.someone_with_work(who)
        row = self.model.rows[held.delivery.id]
        if sent:  # the provider has it, but its answer got lost
            self.send(row)
        self.settle(
            who,
            crash,
            lambda db: db.outbox.defer(held.delivery, delay_seconds=delay, error="no\x00answer"),
            lambda: self.model.give_back(row, held.claim, held.lost, delay=delay, counted=True),
        )
        self.hands[who] = [each for each in self.hands[who] if each.delivery.session_id != row.session_id]

    @precondition(lambda self: any(self.hands))
    @rule(who=who, crash=crash)
    def give_back(self, who: int, crash: Moment | None) -> None:
        """The last one, so that nothing is skipped."""
        who, _ = self.someone_with_work(who)
        held = self.hands[who][-1]
        row = self.model.rows[held.delivery.id]
        done = self.step(
            who,
            crash,
            lambda db: db.outbox.give_back(held.delivery),
            lambda: self.model.give_back(row, held.claim, held.lost, delay=0, counted=False),
        )
        self.hands[who] = self.hands[who][:-1] if done else []

    @precondition(lambda self: any(self.hands))
    @rule(who=who, crash=crash)
    def set_aside(self, who: int, crash: Moment | None) -> None:
        who, held = self.someone_with_work(who)
        row = self.model.rows[held.delivery.id]
        self.settle(
            who,
            crash,
            lambda db: db.outbox.set_aside(held.delivery, error="never"),
            lambda: self.model.set_aside(row, held.claim, held.lost),
        )

    @precondition(lambda self: any(self.hands))
    @rule(who=who, crash=crash, lease=leases)
    def extend(self, who: int, crash: Moment | None, lease: int) -> None:
        who, held = self.someone_with_work(who)
        done = self.step(
            who,
            crash,
            lambda db: db.outbox.extend(held.delivery, lease_seconds=lease),
            lambda: self.model.extend(held.claim, held.lost, lease),
        )
        if not done:
            self.hands[who] = []

    def someone_with_work(self, who: int) -> tuple[int, InHand]:
        """The worker itself, or the next one that has something in hand."""
        while not self.hands[who]:
            who = (who + 1) % WORKERS
        return who, self.hands[who][0]

    def send(self, row: ModelDelivery) -> None:
        """M6: nothing that was never set aside is overtaken."""
        for earlier in self.model.rows.values():
            if (earlier.provider, earlier.session_id) == (row.provider, row.session_id):
                if earlier.id >= row.id:
                    break
                key = (earlier.turn_id, earlier.provider)
                assert key in self.provider.kept or earlier.set_aside_once
        self.provider.take(row, self.text(row.turn_id))

    def settle(self, who: int, crash: Moment | None, call: Call, model: Effect) -> None:
        self.hands[who] = self.hands[who][1:] if self.step(who, crash, call, model) else []

    # by hand

    @precondition(lambda self: any(row.set_aside_once for row in self.model.rows.values()))
    @rule(who=who, crash=crash, back=pick, again=st.booleans())
    def retry_or_drop(self, who: int, crash: Moment | None, back: int, again: bool) -> None:
        rows = list(reversed(self.model.rows.values()))
        rows.sort(key=lambda each: each.state != "set_aside")
        row = rows[back % len(rows)]
        if again:
            self.step(who, crash, lambda db: db.outbox.retry(row.id), lambda: self.model.retry(row))
        else:
            self.step(who, crash, lambda db: db.outbox.drop(row.id), lambda: self.model.drop(row))

    # the world

    @precondition(lambda self: any(self.hands))
    @rule(who=who)
    def dies(self, who: int) -> None:
        self.processes.bury(who)
        self.hands[who] = []

    @precondition(lambda self: self.providers_with_work())
    @rule(who=who, back=pick, limit=st.sampled_from([1, 3]))
    def another_claims_and_dies(self, who: int, back: int, limit: int) -> None:
        names = self.providers_with_work()
        provider = names[back % len(names)]
        expected, number = self.model.claimable(provider, limit), next(self.numbers)
        left = claim_for_the_dead(self.processes.db(who), provider, limit)
        assert [each.id for each in left] == [row.id for row in expected]
        self.model.claim(expected, number, int(LEASE))
        self.dead_claims[provider].add(number)

    @rule(who=who, crash=crash, provider=st.sampled_from(PROVIDERS))
    def free_dead_claims(self, who: int, crash: Moment | None, provider: str) -> None:
        freed: list[int] = []
        expected: list[int] = []
        done = self.step(
            who,
            crash,
            lambda db: freed.append(db.outbox.free_dead_claims(provider)),
            lambda: expected.append(self.model.end_claims(self.dead_claims[provider])),
        )
        if done:
            assert freed == expected

    @rule(seconds=st.sampled_from([1, 5, 10, 60, 120]))
    def time_passes(self, seconds: int) -> None:
        self.database.clock.advance(seconds)
        self.model.now += seconds

    @invariant()
    def rows_are_as_they_should_be(self) -> None:
        outbox = self.processes.db(len(self.model.rows) % WORKERS).outbox
        dues: dict[int, int] = {}
        for row in self.model.rows.values():
            stored = outbox.get(row.id)
            assert stored is not None
            assert (stored.state, stored.attempts) == (row.state, row.attempts)
            if row.state in OPEN:
                assert stored.due == self.epoch + row.due * SECOND
            dues[row.id] = stored.due
        for name in (*PROVIDERS, LATE_PROVIDER):
            sessions = self.model.open_rows(name)
            backlog = outbox.backlog(name)
            assert backlog.owed == sum(len(rows) for rows in sessions.values())
            assert backlog.set_aside == sum(
                (row.provider, row.state) == (name, "set_aside") for row in self.model.rows.values()
            )
            heads = [dues[rows[0].id] for rows in sessions.values()]
            assert outbox.next_due(name) == min(heads, default=None)

    @invariant()
    def nothing_is_claimed_that_is_not_due(self) -> None:
        idle = {*PROVIDERS, LATE_PROVIDER} - set(self.providers_with_work())
        for name in idle:
            assert self.processes.db(0).outbox.claim(name, lease_seconds=60) == []

    def teardown(self) -> None:
        try:
            self.drain()
        finally:
            self.processes.tidy()

    def drain(self) -> None:
        """Time heals everything: in the end nothing is owed and nothing was lost."""
        outbox = self.processes.db(0).outbox
        for row in self.model.rows.values():
            if row.state == "set_aside":
                outbox.retry(row.id)
        self.database.clock.advance(1000)
        for name in (*PROVIDERS, LATE_PROVIDER):
            while claimed := outbox.claim(name, lease_seconds=60, limit=3):
                for delivery in claimed:
                    self.send(self.model.rows[delivery.id])
                    outbox.mark_delivered(delivery)
        dropped = {(row.turn_id, row.provider) for row in self.model.rows.values() if row.state == "dropped"}
        owed = {(row.turn_id, row.provider) for row in self.model.rows.values()}
        kept = {key: text for key, text in self.provider.kept.items() if key not in dropped}
        assert kept == {key: self.text(key[0]) for key in owed - dropped}
        assert outbox.list("owed") == outbox.list("claimed") == outbox.list("set_aside") == []
