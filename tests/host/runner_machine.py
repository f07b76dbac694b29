"""Two hosts on one store, and everything that moves a runner from state to state, in any order.

A third party holds the conversation's lease now and then, as a process on another machine does.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, suppress
from typing import Any, cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from holdfast.core.errors import HoldfastError, HostClosed, SessionNotFound, StoreUnreachable
from holdfast.core.states import RUNNER
from holdfast.host import HostOptions, SessionHost
from holdfast.host.conversation import Conversation
from holdfast.models.contract import ModelRequest
from holdfast.sessions import Engine, SessionDB
from holdfast.sessions.contract import Lease, Mode, Operation, Transaction
from holdfast.sessions.leases import acquired_lease, current_lease, session_lease
from holdfast.testing import ScriptedModel
from tests.agent.agent_fixtures import DEADLINE, until
from tests.host.host_fixtures import a_host

OPTIONS = HostOptions(poll_seconds=0.01, shutdown_seconds=10.0, patience_seconds=0.2)
ANSWERS = 10_000
ELSEWHERE = "another machine"
HOLDING = ("serving", "checking", "called_again")

hosts = st.integers(0, 1)


class BreakableEngine:
    """An engine that can't be reached while it is broken."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.broken = False

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever an engine has
        if self.broken and name != "close" and callable(getattr(self._engine, name)):
            raise StoreUnreachable("the store", "it is broken")
        return getattr(self._engine, name)


class Failures(logging.Handler):
    """Keeps the records of runners that failed."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() == "host.runner_failed":
            self.records.append(record)


class RunnerMachine(RuleBasedStateMachine):
    """At most one turn runs, what waits runs or is parked, and every request is answered."""

    def __init__(self, new_engine: Callable[[], Callable[[], Engine]]) -> None:
        super().__init__()
        self._open_engine = new_engine()
        self._engines: dict[SessionHost, BreakableEngine] = {}
        self._loop = asyncio.new_event_loop()
        self._failures = Failures()
        logging.getLogger("holdfast.host").addHandler(self._failures)
        self._gate = asyncio.Event()
        self._gate.set()
        self._running = 0
        self._most_running = 0
        self._count = 0
        self._last_text = ""
        self._accepted: list[str] = []
        self._either: list[str] = []  # accepted while a deletion ran: gone with the rest, or there
        self._deletions = 0
        self._requests: list[asyncio.Task[None]] = []
        self._readers: list[list[asyncio.Task[None]]] = [[], []]
        self._third_engine = self._open_engine()
        self._third = SessionDB.on(self._third_engine)
        self._third.create_session("s", source="test")
        self._held = False
        self._stolen = False
        self._hosts = [self._await(self._start()) for _ in range(2)]

    # what happens

    @rule(who=hosts, mode=st.sampled_from(["queue", "steer", "interrupt"]))
    def send(self, who: int, mode: Any) -> None:  # noqa: ANN401
        with suppress(StoreUnreachable):
            self._await(self._send(who, mode))

    @rule(who=hosts, number=st.integers(2, 6))
    def send_one_after_another(self, who: int, number: int) -> None:
        """Each of them comes while the runner takes some step for those before."""
        for _ in range(number):
            self._request(self._send(who, "queue"))

    @rule()
    def a_message_comes_through_a_process_that_died(self) -> None:
        with suppress(SessionNotFound):
            self._third.inbox.put("s", {"role": "user", "content": self._text()})
            self._accepted.append(self._last_text)

    @rule(who=hosts)
    def interrupt(self, who: int) -> None:
        with suppress(HoldfastError):
            self._await(self._hosts[who].interrupt("s"))

    @rule(who=hosts)
    def break_the_store(self, who: int) -> None:
        self._engines[self._hosts[who]].broken = True

    @rule()
    def mend_the_stores(self) -> None:
        for engine in self._engines.values():
            engine.broken = False

    @rule(who=hosts, name=st.sampled_from(["compact", "resume", "drop"]))
    def command(self, who: int, name: str) -> None:
        self._request(getattr(self._hosts[who].commands, name)("s"))

    @rule(who=hosts)
    def read(self, who: int) -> None:
        async def read() -> None:
            with suppress(HoldfastError):
                async for _ in self._hosts[who].events("s"):
                    pass

        self._readers[who].append(self._loop.create_task(read()))

    @rule(who=hosts)
    def stop_reading(self, who: int) -> None:
        for task in self._readers[who]:
            task.cancel()
        self._readers[who].clear()

    @rule()
    def hold_answers(self) -> None:
        self._gate.clear()

    @rule()
    def let_answers_go(self) -> None:
        self._gate.set()

    @rule()
    def another_machine_takes_the_lease(self) -> None:
        with suppress(SessionNotFound):
            self._held = self._held or self._third.hold_session("s", ELSEWHERE) is not None

    @rule()
    def another_machine_takes_over(self) -> None:
        """The holder seemed dead: what it runs is lost."""

        def take(tx: Transaction) -> Lease | None:
            # One step: nobody gets the lease in between, while the turn that is lost still runs.
            lease = current_lease(tx, session_lease("s"))
            if lease is None:
                return None
            tx.queries.release_lease(name=lease.name, holder=lease.holder, token=lease.token)
            return acquired_lease(tx, lease.name, ELSEWHERE, int(self._third.lease_seconds * 1e6))

        if not self._held:
            taken = self._third_engine.write(Operation("acquire_lease", take))
            if taken is not None:
                self._third.keeper.adopt(taken)
            self._held = self._stolen = taken is not None

    @rule()
    def another_machine_lets_it_go(self) -> None:
        # A turn that is lost runs on until it tries to store something; meanwhile no other may begin.
        if self._held and not (self._stolen and self._is_serving()):
            with suppress(SessionNotFound):
                self._third.let_go_of_session("s", ELSEWHERE)
            self._held = self._stolen = False

    @rule(who=hosts)
    def delete(self, who: int) -> None:
        """Everything that was said goes with the conversation; the next message begins it again."""
        before, either = len(self._accepted), len(self._either)
        with suppress(HoldfastError):
            self._await(self._hosts[who].delete("s", force=True))
            # A message accepted meanwhile was stored before the deletion, or begins the conversation again.
            self._either = self._either[either:] + self._accepted[before:]
            self._accepted.clear()
            self._deletions += 1

    @rule(who=hosts)
    def restart(self, who: int) -> None:
        self.mend_the_stores()
        self._await(self._end(self._hosts[who]))
        self.stop_reading(who)
        self._hosts[who] = self._await(self._start())

    @rule(moments=st.integers(1, 5))
    def time_passes(self, moments: int) -> None:
        self._await(asyncio.sleep(moments * OPTIONS.poll_seconds))  # noqa: TID251 - so that runners go on

    # what is true all the time

    @invariant()
    def at_most_one_turn_runs(self) -> None:
        assert self._most_running <= 1

    @invariant()
    def every_runner_is_in_a_state_of_the_table(self) -> None:
        for host in self._hosts:
            for each in _conversations(host):
                assert each.state in RUNNER.states
                assert each.state not in RUNNER.final or each.is_unused
        assert not [record.exc_info for record in self._failures.records]

    # and in the end

    def teardown(self) -> None:
        with ExitStack() as end:
            # In any case, the last one first: a host that stays open disturbs the tests after this one.
            end.callback(self._loop.close)
            end.callback(self._third.close)
            end.callback(logging.getLogger("holdfast.host").removeHandler, self._failures)
            end.callback(lambda: self._await(self._close()))
            self._await(self._finish())

    async def _finish(self) -> None:
        self.mend_the_stores()
        self._gate.set()
        if self._held:
            await until(lambda: not self._is_serving())
            with suppress(SessionNotFound):
                self._third.let_go_of_session("s", ELSEWHERE)
        await until(lambda: all(each.done() for each in self._requests))
        # A person speaks again: what earlier lives left behind runs as well.
        for who in range(2):
            await self._send(who, "queue")
        await until(self._is_done)
        self._require_said()
        for host in self._hosts:
            await self._end(host)
        assert not [record.exc_info for record in self._failures.records]
        assert self._most_running <= 1

    async def _close(self) -> None:
        self.mend_the_stores()
        self._gate.set()
        tasks = [*self._requests, *self._readers[0], *self._readers[1]]
        for task in tasks:
            task.cancel()
        closing = (host.close() for host in self._hosts)
        await asyncio.gather(*closing, *tasks, return_exceptions=True)

    def _is_serving(self) -> bool:
        """Whether a host goes on as if it held the lease: a turn that it has opened asks its model yet."""
        return any(each.state in HOLDING for host in self._hosts for each in _conversations(host))

    def _is_done(self) -> bool:
        state = self._third.conversations.state("s")
        return not state.waiting and state.open_turn is None

    def _require_said(self) -> None:
        """Each message that was accepted is there once; one that came beside a deletion may be gone."""
        said, accepted = Counter(self._said()), Counter(self._accepted)
        missing = sorted((accepted - said).elements())
        surplus = sorted((said - accepted - Counter(self._either)).elements())
        assert not missing, f"accepted and not there: {missing}"
        assert not surplus, f"there, though deleted or said only once: {surplus}"

    def _said(self) -> list[str]:
        """What people said in the conversation, each message once."""
        stored = [
            each.message["content"]
            for session in self._third.sessions.lineage("s")
            for each in self._third.sessions.read(session)
            if each.message["role"] == "user" and each.turn_id is not None and not each.carried
        ]
        return sorted(line for text in stored for line in str(text).splitlines() if line)

    # inside

    async def _start(self) -> SessionHost:
        engine = BreakableEngine(self._open_engine())
        db = SessionDB.on(cast(Engine, engine))
        host = a_host(db, lambda _: ScriptedModel([self._answer] * ANSWERS, record=False), options=OPTIONS)
        self._engines[host] = engine
        return await host.__aenter__()

    async def _send(self, who: int, mode: Mode) -> None:
        text, deletions = self._text(), self._deletions
        await self._hosts[who].send("s", text, mode)
        # The deletion may be known here before the message that it deleted.
        (self._accepted if deletions == self._deletions else self._either).append(text)

    def _text(self) -> str:
        self._count += 1
        self._last_text = f"message {self._count}."
        return self._last_text

    async def _end(self, host: SessionHost) -> None:
        """A host that is closed has answered every request, and takes nothing more."""
        known = _conversations(host)
        await host.close()
        for each in known:
            assert each.state in RUNNER.final
            with suppress(HostClosed):
                each.run_waiting()
                await each.run_command(_never)
                raise AssertionError("a closed runner took a command")
            assert each.state in RUNNER.final
        with suppress(HostClosed):
            await host.send("s", "too late")
            raise AssertionError("a closed host took a message")

    async def _answer(self, _: ModelRequest) -> str:
        self._running += 1
        self._most_running = max(self._most_running, self._running)
        try:
            await self._gate.wait()
        finally:
            self._running -= 1
        return "yes"

    def _request(self, call: Coroutine[Any, Any, Any]) -> None:
        async def answered() -> None:
            with suppress(HoldfastError):
                await call

        self._requests.append(self._loop.create_task(answered()))

    def _await(self, call: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401
        return self._loop.run_until_complete(asyncio.wait_for(call, DEADLINE))


def _conversations(host: SessionHost) -> list[Conversation]:
    return list(host._conversations.opened.values())  # noqa: SLF001 - their states are what is looked at


async def _never(_: object) -> None:
    raise AssertionError("it ran")
