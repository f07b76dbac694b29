"""Each idea for better recall, alone and on top of what is built in: its gain, its noise and its cost.

Two kinds of data: the conversations given (LoCoMo), and chats made up in `made_chats.py`. The spread is the
standard error of the paired difference over questions. The last lines choose the weights on all conversations
but one and ask that one: that is what to expect of conversations nobody has seen.
"""

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from bench import recall_more_ideas as more
from bench.recall_talks import VECTOR_NEIGHBOURS, Array, Talk, merged
from holdfast.providers.local.full_text import NEIGHBOURS, SATURATION
from holdfast.providers.local.recall import (
    DATE_BONUS,
    SHARE_OF_VECTORS,
    SPEAKER_BONUS,
    SUBSTANCE_BONUS,
    TIME_BONUS,
)
from holdfast.providers.local.words import STOP_WORDS, all_words, names_in

DEPTHS = (5, 10, 20)
FEEDBACK_FROM, FEEDBACK_WORDS = 3, 5


@dataclass(frozen=True, slots=True)
class Way:
    """One way to recall; the defaults are what is built in, and 0 leaves an idea out."""

    share: float = SHARE_OF_VECTORS
    saturation: float = SATURATION
    speaker: float = SPEAKER_BONUS
    substance: float = SUBSTANCE_BONUS
    time: float = TIME_BONUS
    date: float = DATE_BONUS
    answer: float = 0.0
    session: float = 0.0
    feedback: float = 0.0
    vector_feedback: float = 0.0
    first_name: bool = False
    neighbours: tuple[tuple[int, float], ...] = NEIGHBOURS
    vectors: str = "passages"
    similarity: more.Idea | None = None
    also: more.Idea | None = None
    also_weight: float = 0.2
    fewer_of_a_session: float = 0.0


BEFORE = Way(share=0.5, substance=0.0, time=0.0, date=0.0)
BUILT_IN = Way()
WIDER = (*NEIGHBOURS, (-3, 0.2), (3, 0.2))
AFTER_A_QUESTION = ((0, 1.0), (-1, 0.7), (1, 0.3), (-2, 0.3), (2, 0.3))
TAKEN = {
    "share of vectors 0.6 instead of 0.5": Way(substance=0.0, time=0.0, date=0.0),
    "substance: what tells something": replace(BEFORE, substance=SUBSTANCE_BONUS),
    "a time, when one is asked for": replace(BEFORE, time=TIME_BONUS),
    "the month or year that the question names": replace(BEFORE, date=DATE_BONUS),
}
NOT_TAKEN = {
    "words saturate sooner (0.3)": Way(saturation=0.3),
    "neighbours at distance three": Way(neighbours=WIDER),
    "the passage before counts more than the one after": Way(neighbours=AFTER_A_QUESTION),
    "an answer to a question with the words": Way(answer=0.2),
    "a passage gains from the best of its session": Way(session=0.2),
    "feedback: rare words of the first three": Way(feedback=0.1),
    "feedback: vectors of the first three": Way(vector_feedback=0.3),
    "the first of several names counts most": Way(first_name=True),
    "a vector for each sentence, the nearest counts": Way(vectors="sentences"),
    "a second vector, with the passage before": Way(vectors="context"),
    "vectors without their mean": Way(similarity=more.centred),
    "a passage like many others counts less (CSLS)": Way(similarity=more.less_of_the_usual),
    "the question in the first person, averaged": Way(similarity=more.in_the_first_person),
    "the question without stop words, averaged": Way(similarity=more.by_content_words),
    "the question in parts (and, or, commas)": Way(similarity=more.in_parts),
    "the mean vector of the session": Way(also=more.session_vector, also_weight=0.1),
    "words of the question anywhere in the session": Way(also=more.session_words),
    "two words side by side as in the question": Way(also=more.side_by_side),
    "names as they are written": Way(also=more.names_as_written),
    "the third of a session counts less": Way(fewer_of_a_session=0.03),
}
SENSITIVITY = {
    "share of vectors 0.5 / 0.7": (Way(share=0.5), Way(share=0.7)),
    "substance 0.2 / 0.4": (Way(substance=0.2), Way(substance=0.4)),
    "time 0.1 / 0.3": (Way(time=0.1), Way(time=0.3)),
    "date 0.1 / 0.3": (Way(date=0.1), Way(date=0.3)),
    "speaker 0.2 / 0.4": (Way(speaker=0.2), Way(speaker=0.4)),
}
GRID = [
    Way(share=share, substance=substance, time=bonus)
    for share, substance, bonus in product((0.5, 0.55, 0.6, 0.65), (0.0, 0.2, 0.3, 0.4), (0.0, 0.1, 0.2))
]


def scores(talk: Talk, question: int, way: Way) -> Array:
    """The scores of all passages for one question."""
    text = talk.text_scores(talk.words_of(question), way.saturation, way.neighbours)
    near = talk.around(_similarities(talk, question, way), VECTOR_NEIGHBOURS)
    both = merged(text, near, way.share)
    whole = both + _bonus(talk, question, way)
    if way.fewer_of_a_session:
        whole = whole - way.fewer_of_a_session * more.fewer_of_a_session(talk, whole)
    if way.session:
        best = {each: both[talk.sessions == each].max() for each in set(talk.sessions.tolist())}
        whole += way.session * np.array([best[each] for each in talk.sessions.tolist()])
    if way.feedback:
        found = np.argsort(-np.where(both < 0, -1, whole))[:FEEDBACK_FROM]
        further = talk.text_scores(_rare_words(talk, question, found), way.saturation)
        whole += way.feedback * further / (further.max() or 1)
    return np.where(both < 0, -1.0, whole)


def _bonus(talk: Talk, question: int, way: Way) -> Array:
    favoured = talk.favoured(question)
    if way.first_name:
        named = [each for each in names_in(talk.questions[question]) if each in talk.named(question)]
        favoured = np.array(
            [1.0 if who in named[:1] else value / 2 if len(named) > 1 else value
             for who, value in zip(talk.speakers, favoured, strict=True)]
        )  # fmt: skip
    bonus = way.speaker * favoured + way.substance * talk.substance
    if way.time and talk.wants_time(question):
        bonus = bonus + way.time * talk.times
    if way.date:
        bonus = bonus + way.date * talk.said_then(question)
    if way.also is not None:
        bonus = bonus + way.also_weight * way.also(talk, question)
    if way.answer:
        own = sum((talk.word(each) for each in talk.words_of(question)), np.zeros(len(talk)))
        asked = talk.question_shares * own / (float(np.max(own)) or 1)
        bonus = bonus + way.answer * talk.around(asked, ((-1, 1.0),))
    return bonus


def _similarities(talk: Talk, question: int, way: Way) -> Array:
    if way.similarity is not None:
        return way.similarity(talk, question)
    query = talk.question_vectors[question]
    own: Array = talk.vectors @ query
    if way.vector_feedback:
        query = query + way.vector_feedback * talk.vectors[np.argsort(-own)[:FEEDBACK_FROM]].mean(axis=0)
        own = talk.vectors @ (query / np.linalg.norm(query))
    if way.vectors == "sentences":
        vectors, owners = talk.sentence_vectors
        np.maximum.at(own, owners, vectors @ query)
    if way.vectors == "context":
        own = (own + talk.context_vectors @ query) / 2
    return own


def _rare_words(talk: Talk, question: int, found: Array) -> list[str]:
    known = set(talk.words_of(question)) | STOP_WORDS
    rare: Counter[str] = Counter()
    for each in found:
        for word in set(all_words(talk.told[each])) - known:
            hits = int((talk.word(word) > 0).sum())
            if len(word) > 3 and hits > 1:
                rare[word] += math.log(len(talk) / hits)  # type: ignore[assignment]
    return [word for word, _ in rare.most_common(FEEDBACK_WORDS)]


@dataclass(frozen=True, slots=True)
class Measured:
    """The recall of each question at each depth, and the CPU time of a question."""

    recall: Array
    milliseconds: float


class Bench:
    """Measures ways of recall over conversations, each once."""

    def __init__(self, talks: Sequence[Talk]) -> None:
        self.talks = talks
        self._measured: dict[tuple[int, Way], Measured] = {}

    def of(self, number: int, way: Way) -> Measured:
        if (number, way) not in self._measured:
            self._measured[number, way] = measured(self.talks[number], way)
        return self._measured[number, way]

    def all_of(self, way: Way) -> Measured:
        each = [self.of(number, way) for number in range(len(self.talks))]
        return Measured(
            np.concatenate([one.recall for one in each]), float(np.mean([one.milliseconds for one in each]))
        )

    def held_out(self, others: "Bench") -> Array:
        """Each conversation with the weights that were best on all others, and on those of another kind."""
        rows = []
        for number in range(len(self.talks)):
            rest = [one for one in range(len(self.talks)) if one != number]
            best = max(GRID, key=lambda way: self._mean(rest, way) + others.all_of(way).recall.mean())
            rows.append(self.of(number, best).recall)
        return np.concatenate(rows)

    def _mean(self, numbers: Sequence[int], way: Way) -> float:
        return float(np.concatenate([self.of(one, way).recall for one in numbers]).mean())


def measured(talk: Talk, way: Way) -> Measured:
    for one in range(len(talk.questions)):
        scores(talk, one, way)  # what is made once, as vectors and the scores of words, is not counted
    begun = time.thread_time()
    found = [np.lexsort((-np.arange(len(talk)), -scores(talk, one, way)))[: max(DEPTHS)].tolist()
             for one in range(len(talk.questions))]  # fmt: skip
    taken = (time.thread_time() - begun) * 1000 / len(found)
    shares = [
        [len(evidence.intersection(each[:depth])) / len(evidence) for depth in DEPTHS]
        for each, evidence in zip(found, talk.evidence, strict=True)
    ]
    return Measured(np.array(shares), taken)


def idea_lines(given: Sequence[Talk], made: Sequence[Talk]) -> Iterator[str]:
    """The tables."""
    kinds = [Bench(given), Bench(made)]
    yield "| idea | R@5 / 10 / 20 | gain | made-up chats | gain | CPU, ms more |"
    yield "|---|---|---|---|---|---|"
    yield _line("**before**", BEFORE, BEFORE, kinds)
    for name, way in TAKEN.items():
        yield _line(f"{name}, alone", way, BEFORE, kinds)
    yield _line("**built in: these together**", BUILT_IN, BEFORE, kinds)
    for name, way in NOT_TAKEN.items():
        yield _line(f"not taken, on top: {name}", way, BUILT_IN, kinds)
    yield ""
    yield "| weights beside the ones built in | R@10 | R@10, made-up chats |"
    yield "|---|---|---|"
    for name, ways in SENSITIVITY.items():
        cells = [
            " / ".join(f"{100 * kind.all_of(way).recall[:, 1].mean():.1f}" for way in ways) for kind in kinds
        ]
        yield f"| {name} | {' | '.join(cells)} |"
    if len(given) > 1:
        unseen, before = kinds[0].held_out(kinds[1]), kinds[0].all_of(BEFORE).recall
        yield ""
        yield (
            f"Weights chosen on all conversations but one (of {len(GRID)} settings), asked of that one:"
            f" {_shares(unseen)} (before: {_shares(before)}; gain {_gain(unseen, before)})."
        )


def _line(name: str, way: Way, base: Way, kinds: Sequence[Bench]) -> str:
    cells = []
    longer = 0.0
    for kind in kinds:
        here, there = kind.all_of(way), kind.all_of(base)
        cells.append(f"{_shares(here.recall)} | {'' if way == base else _gain(here.recall, there.recall)}")
        longer = max(longer, here.milliseconds - there.milliseconds)
    return f"| {name} | {' | '.join(cells)} | {longer:.1f} |"


def _shares(recall: Array) -> str:
    return " / ".join(f"{100 * value:.1f}" for value in recall.mean(axis=0))


def _gain(recall: Array, base: Array) -> str:
    """The mean over the depths, with the standard error of the paired difference."""
    difference = 100 * (recall - base).mean(axis=1)
    return f"{difference.mean():+.1f} ± {difference.std() / math.sqrt(len(difference)):.1f}"
