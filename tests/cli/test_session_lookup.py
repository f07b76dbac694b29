"""What a number and the end of an id name, beside what clients of the API began."""

import json
from collections.abc import Iterator

import pytest

from holdfast import SessionDB
from holdfast.cli.session_lookup import find_in_store
from holdfast.core.errors import InvalidInput
from tests.cli.real_terminal import Home, run

API = "019aaaaa00000000000000000000api1"
PERSON, OLDER, ARCHIVED = (f"019aaaaa0000000000000000000{number}" for number in (70001, 70002, 70003))


def talk(db: SessionDB, session_id: str, said: str, source: str = "cli") -> None:
    db.create_session(session_id, source=source)
    db.sessions.append_message(session_id, {"role": "user", "content": said})


@pytest.fixture
def db() -> Iterator[SessionDB]:
    with SessionDB(":memory:") as opened:
        talk(opened, OLDER, "an older one")
        talk(opened, ARCHIVED, "an archived one")
        opened.conversations.set_archived(ARCHIVED, archived=True)
        talk(opened, PERSON, "the last one of the person")
        talk(opened, API, "a request of a client", source="api")
        yield opened


def test_numbers_count_the_list_without_requests_of_clients(db: SessionDB) -> None:
    assert [find_in_store(db, number) for number in ("1", "2")] == [PERSON, OLDER]
    assert find_in_store(db, "1", archived=True) == ARCHIVED


def test_ids_find_requests_of_clients_and_archived_ones_too(db: SessionDB) -> None:
    assert [find_in_store(db, each[-5:]) for each in (API, ARCHIVED, OLDER)] == [API, ARCHIVED, OLDER]


def test_an_id_is_found_behind_any_number_of_requests_of_clients() -> None:
    with SessionDB(":memory:") as db:
        talk(db, PERSON, "hello")
        for number in range(1_001):
            db.create_session(f"request-{number}", source="api")
        assert find_in_store(db, PERSON[-5:]) == find_in_store(db, "1") == PERSON


@pytest.mark.parametrize("number", ["0", "3", "019"])
def test_a_number_that_is_not_in_the_list_is_no_part_of_an_id(db: SessionDB, number: str) -> None:
    with pytest.raises(InvalidInput, match="there is no conversation"):
        find_in_store(db, number)


def test_without_a_conversation_of_the_person_there_is_no_last_one() -> None:
    with SessionDB(":memory:") as db:
        talk(db, API, "a request of a client", source="api")
        with pytest.raises(InvalidInput, match="there are no conversations yet"):
            find_in_store(db, "1")


@pytest.mark.slow
def test_a_number_deletes_and_continues_what_the_list_shows(home: Home) -> None:
    home.script(["Hello."])
    assert run(home, "ask", "the first of mine").returncode == 0
    home.script(["Hello."])
    assert run(home, "ask", "the last of mine").returncode == 0
    with SessionDB(home.database) as db:
        talk(db, API, "a request of a client", source="api")
    assert "client" not in run(home, "sessions").stdout
    [line] = run(home, "sessions", "--api").stdout.splitlines()
    assert line.split()[0] == f"…{API[-8:]}", "it has no number, because numbers count the other list"
    assert "a request of a client" in run(home, "sessions", "show", API[-8:]).stdout
    assert "Nothing was found" in run(home, "sessions", "search", "request").stdout
    assert "a request of" in run(home, "sessions", "search", "request", "--api").stdout
    home.script(["Gone on."])
    assert run(home, "ask", "--continue", "more").returncode == 0
    assert "more" in run(home, "sessions", "show", "1").stdout
    assert "the last of mine" in run(home, "sessions", "delete", "1", "--yes").stdout
    left = json.loads(run(home, "sessions", "--json").stdout)
    assert [each["opening"] for each in left] == ["the first of mine"]
    assert [each["id"] for each in json.loads(run(home, "sessions", "--api", "--json").stdout)] == [API]
