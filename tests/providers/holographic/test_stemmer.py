"""One word in all its endings: just as the index cuts it."""

import sqlite3
from contextlib import closing

import pytest

from holdfast.providers.holographic.stemmer import stem
from holdfast.providers.local.wordpiece import vocabulary


def test_every_word_is_stemmed_as_the_index_does() -> None:
    known = [word for word in vocabulary() if word.isascii() and word.isalpha() and word.islower()]
    with closing(sqlite3.connect(":memory:")) as index:
        index.execute("create virtual table words using fts5 (word, tokenize = 'porter unicode61')")
        index.execute("create virtual table cut using fts5vocab (words, instance)")
        index.executemany("insert into words (rowid, word) values (?, ?)", enumerate(known))
        differing = [
            (known[row], cut, stem(known[row]))
            for cut, row in index.execute("select term, doc from cut")
            if stem(known[row]) != cut
        ]
    assert len(known) > 20_000
    assert differing == []


@pytest.mark.parametrize("word", ["", "a", "is", "über", "東京", "2026", "don't"])
def test_what_is_no_plain_word_stays_as_it_is(word: str) -> None:
    assert stem(word) == word
