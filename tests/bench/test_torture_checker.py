"""The checker of the torture finds what is planted for it, and nothing in a store that is sound."""

from collections.abc import Iterator

import pytest

from bench.node_torture.checker import Ask, Rows, check
from bench.node_torture.clients import Ledger
from bench.node_torture.database import LOG
from holdfast.core.contract import Message
from holdfast.sessions import SessionDB
from tests.postgres_server import server_url
from tests.sessions.databases import PostgresPlace

pytestmark = pytest.mark.slow  # starts a server

PROVIDERS = ("local", "recorder")
NODE = "node"
"""Under which the node is known to the database."""
HOLDER = f"{NODE}:1:2:3:4"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with server_url() as url:
        yield url


@pytest.fixture
def place(server: str) -> Iterator[PostgresPlace]:
    made = PostgresPlace(server)
    yield made
    made.drop()


@pytest.fixture
def db(place: PostgresPlace) -> Iterator[SessionDB]:
    with SessionDB.open(f"{place.url}&application_name={NODE}") as opened:
        place.connection.execute(LOG)
        opened.create_session("s", source="test")
        yield opened


@pytest.fixture
def ask(place: PostgresPlace) -> Ask:
    def run(statement: str, *values: object) -> Rows:
        found = place.connection.execute(statement.encode(), values or None)
        return found.fetchall() if found.description else []

    return run


def answered(db: SessionDB, number: int, *, held: bool = True, twice: bool = False) -> int:
    """A message that is answered in a turn, under the lease or without it."""
    text = f"say c1-{number} word"
    lease = db.hold_session("s", HOLDER) if held else None
    journal = db.turns if lease is None else db.turns.under(lease)
    inbox_id = db.inbox.put("s", {"role": "user", "content": text}).id
    turn = journal.open("s", take=inbox_id, turn_id=f"t{number}").id
    answer: Message = {"role": "assistant", "content": f"{text} "}
    if twice:
        journal.append(turn, [answer])
    journal.complete(turn, answer, providers=PROVIDERS)
    if held:
        db.let_go_of_session("s", HOLDER)
    return inbox_id


def faults(ask: Ask, books: Ledger, *turns: str) -> set[str]:
    ask("update outbox set state = 'delivered', settled = id + 1, lease = null where state <> 'delivered'")
    found, _ = check(ask, books, [("s", turn) for turn in turns])
    return {what.removeprefix("FAULT: ") for what in found if what.startswith("FAULT")}


def books(*sent: int) -> Ledger:
    return Ledger(sent={each: f"say c1-{number} word" for number, each in enumerate(sent, 1)})


def test_a_sound_store_has_no_faults(db: SessionDB, ask: Ask) -> None:
    sent = answered(db, 1), answered(db, 2)
    notes = books(*sent)
    notes.completed = {"t1": {"say c1-1 word "}}
    assert faults(ask, notes, "t1", "t2", "t2") == set()


def test_a_message_that_is_gone_and_one_that_waits_are_found(db: SessionDB, ask: Ask) -> None:
    waits = db.inbox.put("s", {"role": "user", "content": "say c1-1 word"}).id
    assert faults(ask, books(waits, 1000)) == {"accepted messages lost", "messages that still wait"}


def test_a_write_without_the_lease_is_found(db: SessionDB, ask: Ask) -> None:
    sent = answered(db, 1, held=False)
    assert faults(ask, books(sent), "t1") == {"writes without the lease"}


def test_an_answer_that_is_there_twice_is_found(db: SessionDB, ask: Ask) -> None:
    sent = answered(db, 1, twice=True)
    assert faults(ask, books(sent), "t1") == {"answers doubled"}


def test_what_memory_got_late_or_never_is_found(db: SessionDB, ask: Ask) -> None:
    sent = answered(db, 1), answered(db, 2), answered(db, 3)
    assert faults(ask, books(*sent), "t2", "t1") == {
        "completed turns that never reached memory",
        "sessions whose turns reached memory out of order",
    }


def test_an_answer_that_only_a_reader_saw_is_found(db: SessionDB, ask: Ask) -> None:
    sent = answered(db, 1)
    notes = books(sent)
    notes.completed = {"t1": {"something else"}}
    assert faults(ask, notes, "t1") == {"answers told that differ from the record"}
