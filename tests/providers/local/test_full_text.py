"""Full text in a large memory: only so much of the index is read, rare words first, newest passages first."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.providers.local.full_text import FullText
from holdfast.providers.local.store import PassageStore
from holdfast.sessions.contract import OWNER
from holdfast.testing import FakeClock
from tests.providers.local.completed_turns import turn

ANN = "telegram-main/person-123"
COMMON = 40


@pytest.fixture
def store(path: Path) -> Iterator[PassageStore]:
    """One passage in each session: a rare word in the oldest, a common one in all."""
    opened = PassageStore(str(path), clock=FakeClock())
    said = ["a common zebra", *["a common thing"] * (COMMON - 1)]
    opened.add_turns([turn(1, text, session=f"s{number}") for number, text in enumerate(said)], OWNER)
    yield opened
    opened.close()


def found(store: PassageStore, query: str, scope: str | None, **limits: int) -> list[str]:
    """The sessions, best first."""

    def search(connection: sqlite3.Connection) -> list[str]:
        scores = FullText(connection, store.queries, **limits).scores(query, scope)
        best = sorted(scores, key=lambda position: (-scores[position], -position))
        return [f"s{(position >> 32) - 1}" for position in best]

    return store.read(search)


def test_a_rare_word_is_found_however_old_it_is(store: PassageStore) -> None:
    assert found(store, "common zebra", None, first=5, most=10)[0] == "s0"


def test_of_a_common_word_the_newest_passages_are_found(store: PassageStore) -> None:
    newest = [f"s{COMMON - 1 - number}" for number in range(10)]
    assert found(store, "common", None, first=5, most=10) == newest


def test_a_word_without_a_passage_finds_nothing(store: PassageStore) -> None:
    assert found(store, "giraffe", None) == []


def test_what_others_said_does_not_hide_what_the_scope_said(store: PassageStore) -> None:
    store.add_turns([turn(1, "one more common thing", session="ann")], ANN)
    store.add_turns([turn(1, "a common thing", session=f"t{number}") for number in range(300)], OWNER)
    assert len(found(store, "common thing", ANN)) == 1
    assert len(found(store, "common thing", OWNER)) == 100


def test_of_passages_with_equally_rare_words_the_newest_are_found(path: Path) -> None:
    store = PassageStore(str(path), clock=FakeClock())
    said = ["an owl" if number % 2 else "a heron" for number in range(240)]
    store.add_turns([turn(1, text, session=f"s{number}") for number, text in enumerate(said)], OWNER)
    assert set(found(store, "heron owl", None)) == {f"s{number}" for number in range(140, 240)}
    store.close()
