"""Further ideas for recall, each as a small function: other similarities, and further bonuses of a passage.

`recall_ideas.py` measures them. A similarity or a bonus has one number for each passage of a conversation.
"""

import math
import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from bench.recall_talks import Array, Talk
from holdfast.providers.local.recall import CANDIDATES, ROLES, without_names
from holdfast.providers.local.words import STOP_WORDS, all_words

LIKE = 10
BETWEEN_PARTS = re.compile(r"\s+(?:and|or|but|as well as)\s+|[,;]\s+", re.IGNORECASE)
PROPER = re.compile(r"(?<!^)\b[A-Z][\w-]+")
PER_SESSION = 2
"""So many passages of a session count in full where the further ones count less."""

Idea = Callable[[Talk, int], Array]


def centred(talk: Talk, question: int) -> Array:
    """Without what all passages have in common."""
    middle = talk.vectors.mean(axis=0)
    own: Array = _unit(talk.vectors - middle) @ _unit(talk.question_vectors[question] - middle)
    return own


def less_of_the_usual(talk: Talk, question: int) -> Array:
    """A passage that is like many other candidates counts less (CSLS, with its usual ten)."""
    own: Array = talk.vectors @ talk.question_vectors[question]
    best = np.argsort(-own)[:CANDIDATES]
    like = talk.vectors[best] @ talk.vectors[best].T
    np.fill_diagonal(like, -1.0)
    usual = np.sort(like, axis=1)[:, -LIKE:].mean(axis=1)
    all_usual = np.full(len(talk), np.median(usual))
    all_usual[best] = usual
    own -= all_usual / 2
    return own


def in_the_first_person(talk: Talk, question: int) -> Array:
    """The question as the person in it would ask, since people speak of themselves; both are averaged."""
    text = talk.questions[question]
    for name in sorted(talk.named(question) - ROLES, key=len, reverse=True):
        text = re.sub(rf"\b{re.escape(name)}['\u2019`]s\b", "my", text, flags=re.IGNORECASE)
        text = re.sub(rf"\b{re.escape(name)}\b", "I", text, flags=re.IGNORECASE)
    both = _unit(talk.question_vectors[question] + talk.embed([text])[0])
    own: Array = talk.vectors @ both
    return own


def by_content_words(talk: Talk, question: int) -> Array:
    """The question without its stop words, averaged with all of it."""
    words = [word for word in all_words(_without_names(talk, question)) if word not in STOP_WORDS]
    short = " ".join(words) or talk.questions[question]
    own: Array = talk.vectors @ _unit(talk.question_vectors[question] + talk.embed([short])[0])
    return own


def in_parts(talk: Talk, question: int) -> Array:
    """The question cut at "and", "or" and commas; its best part counts."""
    own: Array = talk.vectors @ talk.question_vectors[question]
    cut = BETWEEN_PARTS.split(_without_names(talk, question))
    parts = [part for part in cut if set(all_words(part)) - STOP_WORDS]
    if len(parts) > 1:
        own = np.maximum(own, (talk.vectors @ talk.embed(parts).T).max(axis=1))
    return own


def session_vector(talk: Talk, question: int) -> Array:
    """How near the mean vector of a passage's session is: a summary without words."""
    means = {each: _unit(talk.vectors[talk.sessions == each].mean(axis=0)) for each in set(talk.sessions)}
    near = np.array([means[each] for each in talk.sessions]) @ talk.question_vectors[question]
    scaled: Array = (near - near.min()) / ((near.max() - near.min()) or 1)
    return scaled


def session_words(talk: Talk, question: int) -> Array:
    """Which share of the question's words its session has, rare words counting more."""
    covered, whole = np.zeros(len(talk)), 0.0
    for word in talk.words_of(question):
        hits = talk.word(word) > 0
        if hits.any():
            rare = math.log(1 + len(talk) / hits.sum())
            covered += rare * np.isin(talk.sessions, talk.sessions[hits])
            whole += rare
    return covered / (whole or 1)


def side_by_side(talk: Talk, question: int) -> Array:
    """Whether two words stand side by side as in the question."""
    words = all_words(talk.questions[question])
    kept = [f"{one} {two}" for one, two in pairwise(words) if one not in STOP_WORDS and two not in STOP_WORDS]
    beside: Array = np.max([np.zeros(len(talk)), *(talk.word(each) > 0 for each in kept)], axis=0)
    return beside


def names_as_written(talk: Talk, question: int) -> Array:
    """Whether it has a name of the question that is not a speaker's, written in the same way."""
    names = [each for each in PROPER.findall(talk.questions[question]) if each.lower() not in STOP_WORDS]
    things = [each for each in names if each.lower() not in talk.named(question)]
    return np.array([float(any(each in told for each in things)) for told in talk.told])


def fewer_of_a_session(talk: Talk, scores: Array) -> Array:
    """The place of each passage among the best of its session, beyond the first ones."""
    seen: Counter[object] = Counter()
    beyond = np.zeros(len(talk))
    for each in np.argsort(-scores, kind="stable")[:CANDIDATES]:
        beyond[each] = max(0, seen[talk.sessions[each]] + 1 - PER_SESSION)
        seen[talk.sessions[each]] += 1
    return beyond


def _without_names(talk: Talk, question: int) -> str:
    return without_names(talk.questions[question], talk.named(question) - ROLES)


def _unit(vectors: Array) -> Array:
    scaled: Array = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return scaled
