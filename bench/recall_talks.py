"""A conversation as arrays, and recall's scores over all of it: for trying an idea without building it.

The words are scored by the same FTS5 table and the vectors come from the same model as in
`holdfast.providers.local`; only the limits that keep a search among many passages fast are left out.
"""

import re
import sqlite3
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from holdfast.providers.local.full_text import NEIGHBOURS
from holdfast.providers.local.passages import author_of, day_in_words, unspaced, without_author
from holdfast.providers.local.recall import CANDIDATES, ROLES, speakers_meant, was_said, without_names
from holdfast.providers.local.substance import asks_for_time, dates_asked, substance, tells_time
from holdfast.providers.local.words import names_in, query_words, quoted

Array = np.ndarray[Any, Any]
Embed = Callable[[Sequence[str]], Array]
VECTOR_NEIGHBOURS = ((0, 1.0), (-1, 0.3), (1, 0.3), (-2, 0.1), (2, 0.1))
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


class EachOnce:
    """Embeds a text once, however often it is said: made-up chats repeat themselves."""

    def __init__(self, embed: Embed) -> None:
        self._embed = embed
        self._known: dict[str, Array] = {}

    def __call__(self, texts: Sequence[str]) -> Array:
        fresh = list(dict.fromkeys(text for text in texts if text not in self._known))
        self._known.update(zip(fresh, self._embed(fresh), strict=True))
        return np.array([self._known[text] for text in texts])


class Talk:
    """The passages and questions of one conversation."""

    def __init__(self, raw: dict[str, Any], embed: Embed, spoken_at: Callable[[str], float]) -> None:
        turns, asked = raw["turns"], raw["questions"]
        self.name = str(raw["name"])
        self.embed = embed
        texts = [turn["text"].strip() for turn in turns]
        self.speakers = [
            turn["speaker"] if turn["speaker"] in ROLES else author_of(turn["text"]) for turn in turns
        ]
        self.told = [without_author(who, text) for who, text in zip(self.speakers, texts, strict=True)]
        self.sessions = np.array([turn["session"] for turn in turns])
        self.questions = [each["question"] for each in asked]
        self.categories = [each["category"] for each in asked]
        numbers = {turn["id"]: number for number, turn in enumerate(turns)}
        self.evidence = [{numbers.get(one, -1) for one in each["evidence"]} for each in asked]
        self.days = [day_in_words(spoken_at(turn["date"]), None) for turn in turns]
        self._index = sqlite3.connect(":memory:")
        self._index.execute(
            "create virtual table passages using fts5"
            " (text, day, unspaced, tokenize = 'porter unicode61 remove_diacritics 2')"
        )
        said = enumerate(zip(texts, self.days, strict=True))
        rows = ((number, text, day, unspaced(text)) for number, (text, day) in said)
        self._index.executemany("insert into passages (rowid, text, day, unspaced) values (?, ?, ?, ?)", rows)
        # Kept, because each word is asked for again with every setting.
        self._words: dict[str, Array] = {}
        self._words_around: dict[tuple[str, tuple[tuple[int, float], ...]], Array] = {}
        self._favoured: dict[int, Array] = {}

    def __len__(self) -> int:
        return len(self.told)

    @cached_property
    def vectors(self) -> Array:
        return self.embed(self.told)

    @cached_property
    def question_vectors(self) -> Array:
        return self.embed(
            [without_names(each, self.named(number) - ROLES) for number, each in enumerate(self.questions)]
        )

    @cached_property
    def substance(self) -> Array:
        return np.array([substance(each) for each in self.told])

    @cached_property
    def times(self) -> Array:
        return np.array([float(tells_time(each)) for each in self.told])

    @cached_property
    def question_shares(self) -> Array:
        """The share of each passage that is questions."""
        cut = [SENTENCE_END.split(each) for each in self.told]
        return np.array(
            [sum(len(one) for one in each if one.endswith("?")) / max(1, sum(map(len, each))) for each in cut]
        )

    @cached_property
    def sentence_vectors(self) -> tuple[Array, Array]:
        """A vector for each sentence, and the passages they belong to."""
        cut = [
            (one, number) for number, each in enumerate(self.told) for one in SENTENCE_END.split(each) if one
        ]
        return self.embed([one for one, _ in cut]), np.array([number for _, number in cut])

    @cached_property
    def context_vectors(self) -> Array:
        """A vector for each passage together with the one before it."""
        return self.embed([f"{before} {each}" for before, each in zip(["", *self.told], self.told)])  # noqa: B905

    def named(self, question: int) -> frozenset[str]:
        return frozenset(self.speakers).intersection(names_in(self.questions[question]))

    def favoured(self, question: int) -> Array:
        if question not in self._favoured:
            meant = self.named(question) | speakers_meant(self.questions[question])
            self._favoured[question] = np.array([float(who in meant) for who in self.speakers])
        return self._favoured[question]

    def wants_time(self, question: int) -> bool:
        return asks_for_time(self.questions[question])

    def said_then(self, question: int) -> Array:
        """Which passages were said in the months and years that the question names."""
        dates = dates_asked(self.questions[question])
        return np.array([float(was_said(dates, day)) for day in self.days])

    def word(self, word: str) -> Array:
        """The BM25 score of one word for each passage."""
        if word not in self._words:
            scores = np.zeros(len(self))
            match = "select rowid, -bm25(passages) from passages where passages match ?"
            for number, score in self._index.execute(match, (quoted(word),)):
                scores[number] = score
            self._words[word] = scores
        return self._words[word]

    def around(self, values: Array, weights: Sequence[tuple[int, float]]) -> Array:
        """The values of each passage and its neighbours in the session, weighted."""
        mixed = np.zeros(len(values))
        for step, weight in weights:
            moved = np.roll(values, -step)
            same = np.roll(self.sessions, -step) == self.sessions
            if step:
                same[slice(-step, None) if step > 0 else slice(None, -step)] = False
            mixed += weight * np.where(same, moved, 0.0)
        return mixed

    def text_scores(
        self,
        words: Sequence[str],
        saturation: float,
        neighbours: Sequence[tuple[int, float]] = NEIGHBOURS,
    ) -> Array:
        scores = np.zeros(len(self))
        for word in words:
            hits = self.word(word)
            best = hits.max()
            if best > 0:
                mixed = self._word_around(word, tuple(neighbours))
                scores += best * (1 + saturation) * mixed / (mixed + best * saturation)
        return scores

    def _word_around(self, word: str, neighbours: tuple[tuple[int, float], ...]) -> Array:
        if (word, neighbours) not in self._words_around:
            self._words_around[word, neighbours] = self.around(self.word(word), neighbours)
        return self._words_around[word, neighbours]

    def words_of(self, question: int) -> list[str]:
        return query_words(self.questions[question])


def merged(text: Array, near: Array, share: float) -> Array:
    """Both scores, scaled as recall scales them, over the best of each side; -1 elsewhere."""
    chosen = np.union1d(
        [one for one in np.argsort(-text)[:CANDIDATES] if text[one] > 0], np.argsort(-near)[:CANDIDATES]
    ).astype(int)
    low, high = near[chosen].min(), near[chosen].max()
    scores = np.full(len(text), -1.0)
    scores[chosen] = (1 - share) * text[chosen] / (text.max() or 1) + share * (near[chosen] - low) / (
        (high - low) or 1
    )
    return scores
