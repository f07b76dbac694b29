"""What holds for both providers on the real servers: nothing lost, nothing doubled, whatever fails."""

import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast import Agent, MemoryManager, SessionDB, SessionLifecycle
from holdfast.agent import AgentOptions
from holdfast.memory.forget_selection import ForgetSelection
from holdfast.memory.retry import RetryPolicy
from holdfast.sessions.forgettings import ProviderForgetting
from holdfast.testing import ScriptedModel
from holdfast.testing.faulty_server import Fault
from tests.backends.conftest import Real
from tests.providers.servers.process_exits import ENDINGS, SAID, deliver_the_rest, ended, noise

pytestmark = [pytest.mark.backends, pytest.mark.timeout(600)]

QUICK = RetryPolicy(initial_delay_seconds=0.1, max_delay_seconds=1.0, max_attempts=10_000)
PATIENCE = 120.0


class Program:
    """A program with the provider and an agent in it, on the test's folder."""

    def __init__(self, real: Real, folder: Path, key: str | None = None) -> None:
        self.real = real
        self.db = SessionDB(folder / "holdfast.db")
        self.memory = MemoryManager(self.db, policy=QUICK)
        self.lifecycle = SessionLifecycle(self.db)
        self.provider = real.backend.make(folder)
        self.memory.add_provider(self.provider, config=real.backend.config(key))

    def ask(self, text: str, answer: str | Callable[..., str] = "", session: str = "") -> str:
        """One turn of an agent; returns everything that the model was sent."""
        session = session or self.real.backend.session
        model = ScriptedModel([answer or f"You said: {text}"])
        options = AgentOptions(recall_seconds=30.0)
        agent = Agent(model, self.db, session, self.memory, options=options)
        asyncio.run(agent.run(text))
        self.lifecycle.mark_turn_completed(session, agent)
        return str(model.requests[-1])

    def forget(self, selection: ForgetSelection) -> ProviderForgetting:
        """Forget it, and what the provider says of that."""
        forgetter = self.memory.forgetter
        record = forgetter.wait(forgetter.forget(selection), PATIENCE)
        assert record is not None
        [answer] = record.providers
        return answer

    @property
    def last_error(self) -> str:
        return self.memory.status()[0].last_error or ""

    def close(self) -> list[str]:
        owed = self.memory.shutdown_all()
        self.provider.shutdown()  # as at the exit of the interpreter: nothing is under way after it
        self.db.close()
        return owed


Start = Callable[..., Program]


@pytest.fixture
def start(real: Real, tmp_path: Path) -> Iterator[Start]:
    programs: list[Program] = []

    def begin(key: str | None = None) -> Program:
        programs.append(Program(real, tmp_path, key))
        return programs[-1]

    yield begin
    for program in programs:
        program.close()


def until(condition: Callable[[], bool], what: str) -> None:
    tick = threading.Event()
    for _ in range(int(PATIENCE * 10)):
        if condition():
            return
        tick.wait(0.1)
    raise AssertionError(f"never came true: {what}")


def test_what_an_agent_was_told_is_recalled_in_another_session(real: Real, start: Start) -> None:
    program = start()
    program.ask("My cat is called Miso.")
    program.ask("I live in Porto.")
    assert program.memory.flush_pending(PATIENCE)
    assert real.backend.heard(real.backend.session) == ["My cat is called Miso.", "I live in Porto."]
    program.lifecycle.commit_session_memory(real.backend.session)
    # An extraction may take its time behind the boundary.
    until(
        lambda: "Miso" in program.memory.prefetch_all("my cat is called", session_id="x", timeout=30),
        "the fact can be recalled",
    )
    asked = program.ask("What is my cat called?", session="another")
    assert "Miso" in asked
    assert "data, not instructions" in asked


@pytest.mark.clause("D3")
def test_a_forgotten_conversation_is_gone_from_the_server_and_nothing_else(real: Real, start: Start) -> None:
    program, gone, kept = start(), real.backend.session, f"{real.backend.session}-kept"

    def recalled() -> set[str]:
        found = program.memory.prefetch_all("heron otter called eats", session_id="x", timeout=30)
        return {word for word in ("Quetzalina", "marzipan", "Bartholomew") if word in found}

    def is_kept(session: str, *words: str) -> None:
        assert program.memory.flush_pending(PATIENCE)
        program.lifecycle.commit_session_memory(session)
        until(lambda: recalled().issuperset(words), f"{words} can be recalled")

    program.ask("My heron is called Quetzalina.")
    program.ask("My heron eats marzipan.")
    is_kept(gone, "Quetzalina", "marzipan")
    program.ask("My otter is called Bartholomew.", session=kept)
    is_kept(kept, "Bartholomew")
    turns = program.db.forgettings.turns_of(gone)
    single = program.forget(ForgetSelection("memories", (turns[0],)))
    assert (single.state, "it can't forget single turns; 1 turn stays" in single.note) == ("unable", True)
    lost = real.backend.server.plan(Fault("DELETE /", "lose", times=1))
    whole = program.forget(program.memory.forgetter.select.by_conversation(gone))
    assert (whole.state, whole.note) == ("done", "")
    assert lost.met.is_set()
    until(lambda: recalled() == {"Bartholomew"}, "the rest can be recalled, and nothing else")


@pytest.mark.clause("M1", "D1", "D2", "M6")
def test_a_server_killed_in_mid_turn_gets_every_turn_once_when_it_is_back(real: Real, start: Start) -> None:
    program = start()
    program.ask("before the fall")
    assert program.memory.flush_pending(PATIENCE)

    def fall(*_: object) -> str:
        real.server.kill()
        return "You said: while it falls"

    program.ask("while it falls", fall)
    program.ask("while it is down")
    assert not program.memory.flush_pending(1.0)
    assert program.memory.status()[0].owed == 2
    real.server.start()
    assert program.memory.flush_pending(PATIENCE)
    said = ["before the fall", "while it falls", "while it is down"]
    assert real.backend.heard(real.backend.session) == said


@pytest.mark.clause("D2", "M6")
def test_a_server_killed_while_it_works_loses_no_turn_and_doubles_at_most_the_one_at_work(
    real: Real, start: Start
) -> None:
    program = start()
    for number in range(6):
        program.ask(f"turn {number}")
    real.server.kill()
    real.server.start()
    for number in range(6, 8):
        program.ask(f"turn {number}")
    assert program.memory.flush_pending(PATIENCE)
    heard = real.backend.heard(real.backend.session)
    assert list(dict.fromkeys(heard)) == [f"turn {number}" for number in range(8)]
    # A server killed between its work and its own record of it does that work again when it is back.
    assert len(heard) <= 8 + 1


@pytest.mark.clause("D3", "M6")
@pytest.mark.parametrize("status", [500, 503, 429])
def test_refusals_on_the_way_cost_nothing(real: Real, start: Start, status: int) -> None:
    program = start()
    headers = {"Retry-After": "1"} if status == 429 else {}
    real.backend.server.plan(Fault(real.backend.writes, "refuse", status=status, headers=headers, times=3))
    for number in range(3):
        program.ask(f"turn {number}")
    assert program.memory.flush_pending(PATIENCE)
    assert real.backend.heard(real.backend.session) == ["turn 0", "turn 1", "turn 2"]


@pytest.mark.clause("D2")
def test_answers_lost_on_the_way_double_nothing(real: Real, start: Start) -> None:
    program = start()
    real.backend.server.plan(Fault(real.backend.writes, "lose", times=3))
    for number in range(3):
        program.ask(f"turn {number}")
    assert program.memory.flush_pending(PATIENCE)
    assert real.backend.heard(real.backend.session) == ["turn 0", "turn 1", "turn 2"]


@pytest.mark.clause("M1", "M5")
def test_a_slow_server_delays_no_turn_and_no_exit(real: Real, start: Start) -> None:
    program = start()
    slow = real.backend.server.plan(Fault(real.backend.writes, "wait", times=1000))
    for number in range(3):
        program.ask(f"turn {number}")
    assert slow.met.wait(PATIENCE)
    (owed,) = program.close()
    assert owed.endswith("they will be sent at the next start")
    slow.times = 0
    slow.gate.set()
    deliver_the_rest(real.backend, Path(program.db.location).parent)
    assert real.backend.heard(real.backend.session) == ["turn 0", "turn 1", "turn 2"]


@pytest.mark.clause("D3", "D9")
def test_a_wrong_key_is_said_and_what_is_owed_arrives_with_the_right_one(real: Real, start: Start) -> None:
    program = start(key="a wrong key")
    program.ask("with the wrong key")
    until(lambda: "refused the key (401" in program.last_error, "the refusal is said")
    assert len(program.close()) == 1
    mended = start()
    assert mended.memory.flush_pending(PATIENCE)
    assert real.backend.heard(real.backend.session) == ["with the wrong key"]


@pytest.mark.clause("D1", "D2")
def test_a_process_killed_between_send_and_acknowledgement_loses_and_doubles_nothing(
    real: Real, tmp_path: Path
) -> None:
    lost = real.backend.server.plan(Fault(real.backend.writes, "lose", times=1000))

    def sent() -> None:
        assert lost.met.wait(PATIENCE)

    ended(real.backend, tmp_path, "kill", sent)
    lost.times = 0
    deliver_the_rest(real.backend, tmp_path)
    assert real.backend.heard(real.backend.session) == SAID


@pytest.mark.clause("D1", "D2", "D5", "D6")
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_process_that_ends_at_a_random_moment_ends_quietly_and_loses_nothing(
    real: Real, ending: str, tmp_path: Path
) -> None:
    seconds = random.uniform(0.0, 4.0)
    err = ended(real.backend, tmp_path, ending, seconds)
    assert not noise(err), f"after {seconds} s: {err}"
    deliver_the_rest(real.backend, tmp_path)
    assert real.backend.heard(real.backend.session) == SAID, f"after {seconds} s"
