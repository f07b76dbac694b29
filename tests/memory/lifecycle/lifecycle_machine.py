"""The lifecycle machine: agents come and go, commits fail, hang and die, and so does the process.

The clock stands still, so a wait with no time is over at once, and one with time ends when its event comes.
"""

import threading
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from holdfast.memory import SessionLifecycle
from holdfast.testing import FakeClock
from holdfast.testing.faults import Moment, ProcessDied
from tests.memory.lifecycle.lifecycle_harness import LONG, Died, in_thread
from tests.memory.lifecycle.lifecycle_model import SESSIONS, STORED, LifecycleModel, ModelDied
from tests.sessions.machines.store_processes import NewDatabase, StoreProcesses
from tests.sessions.store_fixtures import completed_turn

AGENTS = ("a", "b", "c")

sids = st.sampled_from(SESSIONS)
names = st.sampled_from(AGENTS)
maybe_names = st.sampled_from([None, None, None, *AGENTS])
failures: st.SearchStrategy[BaseException | bool] = st.sampled_from(
    [RuntimeError("the provider is down"), False, Died()]
)


@dataclass
class Flight:
    """A commit on a thread of its own, until the machine lets it end."""

    entered: threading.Event = field(default_factory=threading.Event)
    gate: threading.Event = field(default_factory=threading.Event)
    outcome: BaseException | bool | None = None
    answer: "Future[bool] | None" = None


class MachineAgent:
    """Does what the machine says at present."""

    def __init__(self, name: str, machine: "LifecycleMachine") -> None:
        self.name = name
        self._machine = machine
        self.flights: list[Flight] = []

    def commit_memory_session(self) -> bool | None:
        self._machine.calls.append(self.name)
        if self.flights:
            flight = self.flights.pop()
            flight.entered.set()
            assert flight.gate.wait(LONG)
            outcome = flight.outcome
        else:
            outcome = self._machine.failure if self.name == self._machine.model.broken else None
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


class LifecycleMachine(RuleBasedStateMachine):
    """Every answer, every call of an agent and every mark in the store are those of the model."""

    def __init__(self, new_database: NewDatabase) -> None:
        super().__init__()
        self.processes = StoreProcesses(new_database(), 1)
        self.model = LifecycleModel()
        self.calls: list[str] = []
        self.failure: BaseException | bool = False
        self.flights: dict[str, Flight] = {}
        for sid in STORED:
            self.processes.db(0).create_session(sid, source="test")
        self.start()

    def start(self) -> None:
        self.life = SessionLifecycle(self.processes.db(0), clock=FakeClock(), commit_timeout=LONG)
        self.agents = {name: MachineAgent(name, self) for name in AGENTS}
        for sid in SESSIONS:  # tracked in the model's order, in which an eviction looks at them
            self.life.register_agent(sid, self.agents["a"])
            self.life.unregister_agent(sid)

    def agent(self, name: str | None) -> MachineAgent | None:
        return None if name is None else self.agents[name]

    def break_agent(self, name: str | None, failure: BaseException | bool) -> None:
        self.model.broken, self.failure = name, failure
        self.model.dies = isinstance(failure, Died)

    # handles and marks

    @rule(sid=sids, name=names)
    def register(self, sid: str, name: str) -> None:
        self.life.register_agent(sid, self.agents[name])
        self.model.sessions[sid].registered = name

    @rule(sid=sids)
    def unregister(self, sid: str) -> None:
        self.life.unregister_agent(sid)
        self.model.sessions[sid].registered = None

    @rule(sid=sids, name=maybe_names)
    def complete(self, sid: str, name: str | None) -> None:
        if sid in STORED:
            completed_turn(self.processes.db(0), sid)
        answer = self.life.mark_turn_completed(sid, self.agent(name))
        assert answer == self.model.complete(sid, name)

    @rule(sid=st.sampled_from(STORED))
    def complete_without_a_mark(self, sid: str) -> None:
        completed_turn(self.processes.db(0), sid)
        session = self.model.sessions[sid]
        session.generation += 1
        session.turns.append(None)

    @rule(sid=st.sampled_from(STORED), name=maybe_names)
    def mark_again(self, sid: str, name: str | None) -> None:
        assert self.life.mark_turn_completed(sid, self.agent(name)) == self.model.mark_again(sid, name)

    @rule(sid=sids)
    def look(self, sid: str) -> None:
        assert self.life.has_uncommitted_work(sid) == bool(self.model.sessions[sid].turns)

    # boundaries

    @rule(sid=sids, name=maybe_names, wait=st.booleans(), broken=maybe_names, failure=failures)
    def commit(
        self, sid: str, name: str | None, wait: bool, broken: str | None, failure: BaseException | bool
    ) -> None:
        self.break_agent(broken, failure)
        agent = self.agent(name)
        try:
            expected = self.model.commit(sid, name, wait=wait)
        except ModelDied:
            with pytest.raises(Died):
                self.life.commit_session_memory(sid, agent, wait, timeout=0)
        else:
            assert self.life.commit_session_memory(sid, agent, wait, timeout=0) is expected

    @rule(sid=sids, other=maybe_names, broken=maybe_names, failure=failures)
    def evict(self, sid: str, other: str | None, broken: str | None, failure: BaseException | bool) -> None:
        self.break_agent(broken, failure)
        name = other or self.model.sessions[sid].registered or "a"
        closed: list[int] = []
        agent = self.agents[name]

        def close() -> None:
            assert all(name not in session.turns for session in self.model.sessions.values())
            closed.append(len(self.calls))

        try:
            expected = self.model.evict(sid, name)
        except ModelDied:
            with pytest.raises(Died):
                self.life.evict_agent(sid, agent, close=close, timeout=0)
            expected = False
        else:
            assert self.life.evict_agent(sid, agent, close=close, timeout=0) is expected
        assert closed == ([len(self.model.calls)] if expected else [])
        if expected:  # the handle is gone: what is marked without an agent commits nothing
            self.complete(sid, None)
            self.commit(sid, None, False, None, False)

    @rule(sid=sids, name=maybe_names)
    def begin_commit(self, sid: str, name: str | None) -> None:
        if self.model.begin(sid, name) != "begun":
            return
        taken = self.model.sessions[sid].flight
        assert taken is not None
        flight = Flight()
        self.agents[taken[0]].flights.append(flight)
        agent = self.agent(name)
        flight.answer = in_thread(lambda: self.life.commit_session_memory(sid, agent))
        assert flight.entered.wait(LONG)
        self.flights[sid] = flight

    @precondition(lambda self: self.flights)
    @rule(at=st.integers(0, 2), outcome=st.none() | failures)
    def end_commit(self, at: int, outcome: BaseException | bool | None) -> None:
        sid = sorted(self.flights)[at % len(self.flights)]
        self.land(sid, outcome)

    def land(self, sid: str, outcome: BaseException | bool | None) -> None:
        flight = self.flights.pop(sid)
        flight.outcome = outcome
        flight.gate.set()
        assert flight.answer is not None
        error = flight.answer.exception(LONG)
        assert isinstance(error, Died) == isinstance(outcome, Died)
        if error is None:
            assert flight.answer.result() is (outcome is None)
        self.model.end(sid, committed=outcome is None)

    @rule(broken=maybe_names, failure=failures, outcome=st.none() | failures)
    def drain(
        self, broken: str | None, failure: BaseException | bool, outcome: BaseException | bool | None
    ) -> None:
        self.break_agent(broken, failure)
        # What the store has learned from nobody here is not this process's to drain.
        for sid in SESSIONS:
            self.look(sid)
        drain = in_thread(self.life.drain_all_on_shutdown)
        for sid in sorted(self.flights):
            self.land(sid, outcome)
        left = drain.result(LONG)
        assert sorted(left) == sorted(self.model.drain())
        assert sorted(self.calls) == sorted(self.model.calls)
        self.calls = list(self.model.calls)  # sessions are drained side by side, in any order

    # the end of the process

    @rule()
    def crash(self) -> None:
        self.processes.bury(0)
        for flight in self.flights.values():
            flight.gate.set()
            assert flight.answer is not None
            flight.answer.exception(LONG)  # whatever a dead process's thread says
        self.flights.clear()
        self.model.crash()
        self.start()
        assert self.life.recover() == self.model.dirty()

    @rule(sid=st.sampled_from(STORED), name=names, moment=st.sampled_from(["before", "after"]))
    def crash_while_recording(self, sid: str, name: str, moment: Moment) -> None:
        self.break_agent(None, False)
        engine = self.processes.processes[0].engine
        engine.arm(moment)
        with suppress(ProcessDied):
            self.life.commit_session_memory(sid, self.agents[name])
        if engine.armed:
            engine.disarm()
            assert self.model.attempt(sid, name) in ("busy", "clean")
            return
        if self.model.begin(sid, name) == "begun":
            self.model.end(sid, committed=moment == "after")
        self.crash()

    # what always holds

    @invariant()
    def the_agents_were_called_as_the_model_says(self) -> None:
        assert self.calls == self.model.calls

    @invariant()
    def the_store_has_the_marks(self) -> None:
        db = self.processes.db(0)
        for sid in STORED:
            row, session = db.get_session(sid), self.model.sessions[sid]
            assert row is not None
            assert row.generation == session.generation
            assert row.generation - row.committed_generation == len(session.turns)

    def teardown(self) -> None:
        for sid in sorted(self.flights):
            self.land(sid, None)
        self.break_agent(None, False)
        for sid in SESSIONS:
            self.life.commit_session_memory(sid, self.agents["a"], wait=True)
            assert not self.life.has_uncommitted_work(sid)
        self.processes.tidy()
