"""The lanes machine: processes hand turns over and drive their write lanes one step at a time.

Backends fail in every way, take long while others act, store and lose the answer; processes die before
and after each commit, stop cleanly and start again. In the end everything has arrived.
"""

from contextlib import suppress
from functools import partial
from itertools import count

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.core.contract import Message
from holdfast.core.errors import LeaseLost, MemoryClosed, StoreClosed
from holdfast.memory.provider_gate import gate_provider
from holdfast.memory.retry import RetryPolicy
from holdfast.memory.write_lane import WriteLane
from holdfast.process import ShutdownBudget
from holdfast.testing import FakeClock, ProcessDied
from holdfast.testing.faults import Moment
from tests.memory.gates import DEADLINE
from tests.memory.lanes.scripted_backend import Answer, Backend, Client, Ledger, Slowness, client, handed_over
from tests.sessions.machines.store_processes import NewDatabase, Process

PROCESSES = 2
SESSIONS = ("s1", "s2", "s3")
PATIENCE = RetryPolicy(initial_delay_seconds=1, max_delay_seconds=60, max_attempts=4)
MOST_ROUNDS = 200

answers: st.SearchStrategy[Answer] = st.sampled_from(
    ["ok", "ok", "ok", "down", "later", "refused", "nonsense", "exits", "ctrl-c", "unheard", "half"]
)
scripts = st.lists(answers, max_size=3)
who = st.integers(0, PROCESSES - 1)
names = st.sampled_from(["keyed", "plain"])
sessions = st.sampled_from(SESSIONS)
moments: st.SearchStrategy[Moment | None] = st.sampled_from([None, None, None, None, "before", "after"])
skips = st.integers(0, 3)
slownesses = st.builds(Slowness, st.sampled_from([1, 14, 16, 100]), st.booleans(), st.booleans())


class Life:
    """One process from its start to its end: a store that can die, and a lane to each backend."""

    def __init__(
        self, process: Process, backends: dict[str, Backend], ledger: Ledger, clock: FakeClock
    ) -> None:
        self.process = process
        self.clock = clock
        self.clients = {name: client(backend, ledger) for name, backend in backends.items()}
        self.lanes = {name: self.lane(each) for name, each in self.clients.items()}

    def lane(self, each: Client) -> WriteLane:
        return WriteLane(
            gate_provider(each, self.clock),
            self.process.db,
            self.clock,
            PATIENCE,
            partial(each.initialize, ""),
        )

    def stop(self) -> None:
        """A clean stop: every lane drains what is due on its own thread and lets its provider go."""
        budget = ShutdownBudget(5, self.clock)
        for name, lane in self.lanes.items():
            lane.close(budget)
            lane.start()
            assert lane.finished.wait(DEADLINE)
            assert self.clients[name].state in ("new", "shut down")
        self.process.tidy()


class LanesMachine(RuleBasedStateMachine):
    """Every turn reaches every backend at least once, in order, whatever happens on the way."""

    def __init__(self, new_database: NewDatabase) -> None:
        super().__init__()
        self.database = new_database()
        self.clock = FakeClock()
        self.watch = Process(self.database)
        self.ledger = Ledger(self.watch.db)
        self.backends = {
            "keyed": Backend("keyed", self.ledger, keyed=True),
            "plain": Backend("plain", self.ledger, keyed=False),
        }
        self.lives = [self.new_life() for _ in range(PROCESSES)]
        self.dead: list[Life] = []
        self.numbers = count(1)

    def new_life(self) -> Life:
        return Life(Process(self.database), self.backends, self.ledger, self.clock)

    def bury(self, who: int) -> None:
        self.lives[who].process.die()
        self.dead.append(self.lives[who])
        self.lives[who] = self.new_life()

    # handing over

    @initialize()
    def begin(self) -> None:
        for session in SESSIONS:
            self.record(0, session, 3, None, poisoned=False)

    @rule(who=who, session=sessions, turns=st.integers(1, 3), crash=moments, poisoned=st.booleans())
    def record(self, who: int, session: str, turns: int, crash: Moment | None, poisoned: bool) -> None:
        for _ in range(turns):
            said = f"t{next(self.numbers)}"
            if poisoned:
                self.backends["keyed"].poisoned.add(said)
            process = self.lives[who].process
            if crash is not None:
                process.engine.arm(crash, for_good=True)
            stored = crash != "before"
            with suppress(ProcessDied):
                self.hand_over(who, session, said)
            if stored:
                self.ledger.record(session, said)
            if crash is not None:
                self.bury(who)
                return

    def hand_over(self, who: int, session: str, said: str) -> None:
        turn: list[Message] = [
            {"role": "user", "content": said},
            {"role": "assistant", "content": f"re: {said}"},
        ]
        turns = self.lives[who].process.db.turns
        turns.record(session, turn, providers=tuple(self.backends), provider_messages=handed_over(said))

    # the lanes

    @rule(who=who, name=names, script=scripts, crash=moments, skip=skips, sick=st.sampled_from([0, 0, 0, 1]))
    def step(
        self, who: int, name: str, script: list[Answer], crash: Moment | None, skip: int, sick: int
    ) -> None:
        """One step of one lane, with a backend that answers so, and a death at one of its commits."""
        self.backends[name].script = list(script)
        self.backends[name].fails_to_start = bool(sick)
        self.run_once(who, name, crash, skip)
        self.backends[name].script = []
        self.backends[name].fails_to_start = False

    @rule(who=who, name=names, script=scripts, slowness=slownesses, others=scripts, crash=moments)
    def slow_step(
        self,
        who: int,
        name: str,
        script: list[Answer],
        slowness: Slowness,
        others: list[Answer],
        crash: Moment | None,
    ) -> None:
        """A call that is out for long. Meanwhile time passes, and another process works on the same."""
        backend, other = self.backends[name], (who + 1) % PROCESSES
        lane = self.lives[who].lanes[name]

        def meanwhile() -> None:
            for _ in range(slowness.seconds):
                self.pass_time(1)
                if slowness.kept:
                    lane.keep_claim()
            rest, backend.script = backend.script, list(others)
            self.record(other, SESSIONS[0], 1, None, poisoned=False)
            self.run_once(other, name, None, 0)
            self.run_once(other, name, None, 0)
            backend.script = rest

        backend.script, backend.meanwhile = list(script), meanwhile
        backend.slowness = slowness
        self.run_once(who, name, crash, skip=1 + (slowness.seconds if slowness.kept else 0))
        backend.script, backend.meanwhile = [], None

    def run_once(self, who: int, name: str, crash: Moment | None, skip: int) -> None:
        life = self.lives[who]
        if crash is not None:
            life.process.engine.arm(crash, skip=skip, for_good=True)
        try:
            life.lanes[name].run_once()
        except LeaseLost:
            pass  # the thread around the step logs it and goes on
        except (ProcessDied, StoreClosed):
            assert life.process.engine.dead
        life.process.engine.disarm()
        if life.process.engine.dead:
            self.bury(who)

    @rule(who=who, name=names, session=sessions)
    def boundary(self, who: int, name: str, session: str) -> None:
        """D8: a hook goes behind all that its session is owed by now."""
        owed = list(self.ledger.recorded[session])
        client = self.lives[who].clients[name]

        def hook() -> None:
            client.add_pending("started")
            early = [said for said in owed if not self.ledger.has_settled(name, said)]
            if early:
                self.ledger.wrongs.append(f"a hook of {session} overtook {early}")

        self.lives[who].lanes[name].call(session, "a hook", hook)

    # processes and people

    @rule(who=who)
    def crash(self, who: int) -> None:
        self.bury(who)

    @rule(who=who, script=scripts)
    def restart(self, who: int, script: list[Answer]) -> None:
        for backend in self.backends.values():
            backend.script = list(script)
        life = self.lives[who]
        life.stop()
        for backend in self.backends.values():
            backend.script = []
        for lane in life.lanes.values():
            try:
                lane.call("s1", "a hook", lambda: None).result(0)
            except MemoryClosed:
                continue
            raise AssertionError("a lane that was shut down took a hook")
        self.lives[who] = self.new_life()

    @precondition(lambda self: self.letters())
    @rule(again=st.booleans(), at=st.integers(0, 5))
    def retry_or_drop(self, again: bool, at: int) -> None:
        letters = self.letters()
        owed, row = letters[at % len(letters)]
        if again:
            self.watch.db.outbox.retry(row)
        else:
            self.watch.db.outbox.drop(row)
            self.ledger.dropped.add(owed)

    def letters(self) -> list[tuple[tuple[str, str], int]]:
        return [
            (owed, row) for owed, row in self.ledger.rows.items() if self.ledger.state(owed) == "set_aside"
        ]

    @rule(seconds=st.sampled_from([1, 5, 20, 100]))
    def time_passes(self, seconds: int) -> None:
        self.pass_time(seconds)

    def pass_time(self, seconds: int) -> None:
        self.clock.advance(seconds)
        self.database.clock.advance(seconds)

    # what always holds

    @invariant()
    def nothing_is_lost_or_wrong(self) -> None:
        assert not self.ledger.wrongs, self.ledger.wrongs
        self.ledger.look_aside(PATIENCE.max_attempts)
        for owed in self.ledger.rows:
            state = self.ledger.state(owed)
            provider, said = owed
            assert state != "delivered" or said in self.ledger.arrived[provider], f"{owed} never arrived"
            assert (state == "dropped") == (owed in self.ledger.dropped)

    @invariant()
    def nothing_is_doubled_by_key(self) -> None:
        kept = self.backends["keyed"].by_key
        assert sorted(kept.values()) == sorted(self.ledger.arrived["keyed"])

    def teardown(self) -> None:
        try:
            self.drain()
        finally:
            for life in (*self.lives, *self.dead):
                life.process.tidy()
            self.watch.tidy()

    def drain(self) -> None:
        """Time heals everything, and people look after the dead letters."""
        for backend in self.backends.values():
            backend.heal()
        for _, row in self.letters():
            self.watch.db.outbox.retry(row)
        for _ in range(MOST_ROUNDS):
            self.pass_time(1000)
            worked = [lane.run_once() for life in self.lives for lane in life.lanes.values()]
            if not any(worked):
                break
        self.nothing_is_lost_or_wrong()
        self.nothing_is_doubled_by_key()
        outbox = self.watch.db.outbox
        assert outbox.list("owed") == outbox.list("claimed") == outbox.list("set_aside") == []
        everything = {said for each in self.ledger.recorded.values() for said in each}
        for name in self.backends:
            dropped = {said for provider, said in self.ledger.dropped if provider == name}
            assert set(self.ledger.arrived[name]) >= everything - dropped
            assert not any(life.lanes[name].has_hooks() for life in self.lives)
