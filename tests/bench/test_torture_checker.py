"""The checker of the torture finds what is planted for it, and nothing in a store that is sound."""

from collections.abc import Iterator

import pytest

from bench.node_torture.checker import Arrival, Ask, Rows, check
from bench.node_torture.clients import Ledger
from bench.node_torture.hits import Hit, takeovers, what_was_hit
from bench.node_torture.log import LOG
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


def answered(
    db: SessionDB, number: int, *, held: bool = True, twice: bool = False, session: str = "s"
) -> int:
    """A message that is answered in a turn, under the lease or without it."""
    text = f"say c1-{number} word"
    lease = db.hold_session(session, HOLDER) if held else None
    journal = db.turns if lease is None else db.turns.under(lease)
    inbox_id = db.inbox.put(session, {"role": "user", "content": text}).id
    turn = journal.open(session, take=inbox_id, turn_id=f"t{number}").id
    answer: Message = {"role": "assistant", "content": f"{text} "}
    if twice:
        journal.append(turn, [answer])
    journal.complete(turn, answer, providers=PROVIDERS)
    if held:
        db.let_go_of_session(session, HOLDER)
    return inbox_id


def claim(ask: Ask, turn: str, host: str, *, seconds: int = 60) -> Arrival:
    """A machine claims the delivery of a turn and delivers it."""
    ask("select set_config('application_name', %s, false)", f"{host}:1")
    ask(
        "update outbox set state = 'claimed', lease = %s, due = store_now() + 1000000 * %s"
        " where turn_id = %s and provider = 'recorder'",
        *(host, seconds, turn),
    )
    return Arrival("s", turn, host, now(ask))


def settle(ask: Ask, turn: str, host: str) -> None:
    ask("select set_config('application_name', %s, false)", f"{host}:1")
    ask(
        "update outbox set state = 'delivered', settled = id + 1, lease = null"
        " where turn_id = %s and provider = 'recorder'",
        turn,
    )


def now(ask: Ask) -> float:
    return float(ask("select extract(epoch from clock_timestamp())")[0][0])


def faults(ask: Ask, books: Ledger, *turns: str) -> set[str]:
    """After these turns reached memory, in this order."""
    arrivals = []
    for turn in dict.fromkeys(turns):
        arrivals.append(claim(ask, turn, NODE))
        settle(ask, turn, NODE)
    return found_in(ask, books, arrivals)


def found_in(ask: Ask, books: Ledger, arrivals: list[Arrival], *hits: Hit) -> set[str]:
    ask("update outbox set state = 'delivered', settled = id + 1, lease = null where state <> 'delivered'")
    ask("update outbox set settled = id + 1")
    found, _ = check(ask, books, arrivals, hits)
    return {what.removeprefix("FAULT: ") for what in found if what.startswith("FAULT")}


def books(*sent: int) -> Ledger:
    return Ledger(sent={each: f"say c1-{number} word" for number, each in enumerate(sent, 1)})


def test_a_sound_store_has_no_faults(db: SessionDB, ask: Ask) -> None:
    sent = answered(db, 1), answered(db, 2)
    notes = books(*sent)
    notes.completed = {"t1": {"say c1-1 word "}}
    assert faults(ask, notes, "t1", "t2") == set()


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


AGAIN = "turns that reached memory again though no fault hit the claim before"


def test_a_turn_of_a_group_or_of_a_person_that_is_owed_to_who_may_not_have_it_is_found(
    db: SessionDB, ask: Ask
) -> None:
    ask(
        "insert into chat_rooms (account, chat, thread, is_direct, title, created)"
        " values ('a', 'c', '', 0, '', 1)"
    )
    wrong = {"turns that are owed to who may not have them"}
    for session, scope in (("group", "a/c"), ("person", "a/p")):
        db.create_session(session, source="test", scope=scope)
        notes = books(answered(db, 1, session=session))
        assert found_in(ask, notes, []) == wrong
        ask("delete from outbox where provider = 'recorder'")
        assert found_in(ask, notes, []) == (wrong if session == "group" else set())
        db.delete_session(session)


def a_kill(host: str, began: float) -> Hit:
    return Hit("node killed", frozenset([host]), began, began + 1.0, kills=True, stops_nodes=True)


def test_a_turn_that_memory_got_again_is_explained_only_by_a_fault_of_the_node_that_had_claimed_it(
    db: SessionDB, ask: Ask
) -> None:
    notes = books(answered(db, 1))
    first = claim(ask, "t1", "one", seconds=0)
    arrivals = [first, claim(ask, "t1", "two")]
    settle(ask, "t1", "two")
    assert found_in(ask, notes, arrivals) == {AGAIN}
    assert found_in(ask, notes, arrivals, a_kill("two", first.at)) == {AGAIN}
    assert found_in(ask, notes, arrivals, a_kill("one", first.at)) == set()


def test_a_turn_that_memory_got_twice_under_one_claim_or_without_one_is_found(
    db: SessionDB, ask: Ask
) -> None:
    notes = books(answered(db, 1))
    arrival = claim(ask, "t1", "one")
    settle(ask, "t1", "one")
    kill = a_kill("one", arrival.at)
    assert found_in(ask, notes, [arrival, arrival], kill) == {
        "turns that reached memory twice under one claim"
    }
    other = arrival._replace(host="two")
    assert found_in(ask, notes, [arrival, other], kill) == {"turns that reached memory without a claim"}


def test_claims_that_overlap_and_deliveries_that_another_ends_are_found(db: SessionDB, ask: Ask) -> None:
    notes = books(answered(db, 1))
    first = claim(ask, "t1", "one")
    second = claim(ask, "t1", "two")
    settle(ask, "t1", "one")
    assert found_in(ask, notes, [second], a_kill("one", first.at)) == {
        "deliveries claimed while another claim was in force",
        "deliveries ended by a process that had not claimed them",
    }


def test_a_chat_that_a_process_without_the_accounts_lease_changes_is_found(db: SessionDB, ask: Ask) -> None:
    ask(
        "insert into chat_rooms (account, chat, thread, is_direct, title, created)"
        " values ('a', 'c', '', 1, '', 1)"
    )
    ask(
        "insert into chat_posts (key, room_id, kind, reply_to, body, state, due, created)"
        " select 'k', id, 'notice', '', '{}', 'due', 1, 1 from chat_rooms"
    )
    send = (
        "insert into chat_parts (post_id, number, body, state) select id, %s, '{}', 'sending' from chat_posts"
    )
    lease = (
        "insert into leases (name, holder, token, expires) values ('chat:a', %s, 1, store_now() + 60000000)"
    )
    ask("select set_config('application_name', 'one:1', false)")
    ask(lease, "one:1:chats")
    ask(send, 1)
    assert found_in(ask, books(), []) == set()
    ask("select set_config('application_name', 'two:1', false)")
    ask(send, 2)
    assert found_in(ask, books(), []) == {"chats changed without the account's lease"}


def hold(ask: Ask, holder: str) -> None:
    ask(
        "insert into leases (name, holder, token, expires) values ('chat:a', %s, 1, 0)"
        " on conflict (name) do update set holder = excluded.holder, token = 2",
        holder,
    )


def test_what_a_fault_hit_and_how_long_a_takeover_took_is_read_from_the_log(db: SessionDB, ask: Ask) -> None:
    answered(db, 1)
    claim(ask, "t1", "one")
    hold(ask, "one:1:x")
    at = now(ask)
    hold(ask, "two:1:x")
    hit = a_kill("one", at)
    settle(ask, "t1", "two")
    assert what_was_hit(ask, [hit]) == {"faults that hit a delivery to memory": 1}
    assert what_was_hit(ask, [a_kill("two", at), a_kill("one", now(ask))]) == {}
    ((seconds, name, kind),) = takeovers(ask, [hit])
    assert (name, kind) == ("chat:a", "node killed")
    assert seconds > 0
    assert takeovers(ask, [a_kill("two", at)]) == []
