"""The word index on PostgreSQL: it holds any text, and shows what it found as it was written."""

import random
import unicodedata
from collections.abc import Callable, Iterator

import pytest

from holdfast.sessions import SearchHit, SessionDB
from tests.sessions.databases import StillPostgres
from tests.sessions.store_fixtures import user

LETTERS = [chr(n) for n in range(0x20000, 0x2A6D0)]  # four bytes each
RANDOM = random.Random(11)


@pytest.fixture
def db(still_postgres: StillPostgres) -> Iterator[SessionDB]:
    database = still_postgres.database()
    db = database.open()
    db.create_session("s", source="test")
    yield db
    database.close()


def letters(length: int, words: int) -> str:
    return " ".join("".join(RANDOM.choices(LETTERS, k=length)) for _ in range(words))


def plane(start: int, end: int) -> str:
    return "".join(chr(n) for n in range(start, end) if unicodedata.category(chr(n)) != "Cs")


NASTY: dict[str, Callable[[], str]] = {
    "200,000 short words": lambda: " ".join(f"{n:x}" for n in range(200_000)),
    "words of one wide letter": lambda: " ".join(LETTERS),
    "words of two wide letters": lambda: letters(2, 100_000),
    "words of three wide letters": lambda: letters(3, 80_000),
    "words near the longest": lambda: letters(500, 1_000),
    "a word longer than the index holds": lambda: "x" * 3_000 + " needle",
    "one endless word": lambda: "y" * 1_000_000,
    "no spaces": lambda: "日本語テスト" * 50_000,
    "emoji": lambda: "😀🎉" * 50_000,
    "syllables that fall apart": lambda: " ".join(chr(0xAC00 + n % 11_172) * 2 for n in range(100_000)),
    "letters that fall into three": lambda: "\U0001d160" * 200_000,
    "accents alone": lambda: "\u0301" * 100_000,
    "addresses": lambda: " ".join(f"http://h{n}.example.com/a-b/{n}?q=1&amp;x#f_{n}" for n in range(20_000)),
    "numbers": lambda: " ".join(f"{n}e{n} -{n}.{n} 0x{n:x} v{n}.{n}" for n in range(20_000)),
    "the first plane": lambda: plane(1, 0x10000),
    "the other planes": lambda: plane(0x10000, 0x110000),
}


@pytest.mark.parametrize("written", NASTY.values(), ids=NASTY.keys())
def test_any_text_is_stored_and_kept_whole(db: SessionDB, written: Callable[[], str]) -> None:
    text = written()
    db.sessions.append_message("s", user(text))
    assert db.get_messages("s") == [user(text)]


def test_words_are_found_in_front_of_and_behind_what_the_index_can_not_hold(db: SessionDB) -> None:
    db.sessions.append_message("s", user("before " + "x" * 3_000 + " after"))
    assert len(db.search("before")) == 1
    assert len(db.search("after")) == 1
    assert db.search("x" * 3_000 + " nowhere") == []


def shown(hit: SearchHit) -> str:
    return "".join(f"[{part.text}]" if part.match else part.text for part in hit.snippet)


@pytest.mark.parametrize(
    ("text", "query", "snippet"),
    [
        ("see src/holdfast/sessions/db.py, line 3", "db", "see src/holdfast/sessions/[db].py, line 3"),
        ("run_once(limit=3) was running", "run", "[run]_once(limit=3) was [running]"),
        ("le Café d'été est fermé", "cafe ete", "le [Café] d'[été] est fermé"),
        ("ЖДИ, wait", "жди", "[ЖДИ], wait"),
        ("“quoted”… and more", "quoted", "“[quoted]”… and more"),
        ("<b>bold</b> &amp; 1e5 is 3.14", '"3.14"', "<b>bold</b> &amp; 1e5 is [3].[14]"),
        ("한국어 text", "text", "한국어 [text]"),
        ("to be or not to be", "not to", "[to] be or [not] [to] be"),
    ],
)
def test_a_snippet_shows_the_text_as_it_was_written(
    db: SessionDB, text: str, query: str, snippet: str
) -> None:
    db.sessions.append_message("s", user(text))
    [hit] = db.search(query)
    assert shown(hit) == snippet


def test_a_snippet_is_cut_around_the_match(db: SessionDB) -> None:
    db.sessions.append_message("s", user("hay " * 5_000 + "the Needle! " + "hay " * 5_000))
    [hit] = db.search("needle")
    assert "the [Needle]! hay" in shown(hit)
    assert shown(hit).startswith("…")
    assert shown(hit).endswith("…")
    assert len(shown(hit)) < 200
