"""The claims of a fact, for finding contradictions: a claim is a frame and a value. Pure functions.

Two facts contradict each other when they give one frame values that exclude each other. Frames are indexed,
so a new fact is compared with the few facts of the same frames, not with all. There are three kinds:

- `polar`: the whole sentence without its negations, opposites reduced to one word; the value is yes or no.
- `number`: the sentence without the numbers, times and days after its verb, which are the value.
- `slot`: a subject and an attribute ("lives in", "favourite colour"); the value is the rest.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from holdfast.providers.holographic.lexicon import (
    MEANING,
    MONTHS,
    NEGATIONS,
    SMALL_NUMBERS,
    STOPPING,
    WEEKDAYS,
)
from holdfast.providers.holographic.slots import slot_of
from holdfast.providers.holographic.tokens import ARTICLES, about_user, sentences, stem_of, words

MAX_CLAIMS = 24
MAX_SENTENCE_WORDS = 40
MIN_SENTENCE_WORDS = 2
FILLERS = ARTICLES | frozenset(
    """also actually always currently definitely generally just now nowadays really still today truly usually
    very so much lot too quite""".split()  # noqa: SIM905 - easier to read as prose
)
BE = frozenset({"is", "are", "am", "be", "being"})
PAST = frozenset(
    {"was", "were", "been", "had", "did", "formerly", "previously", "once", "used", "until", "ago"}
)
HELPERS = frozenset(
    {"do", "does", "have", "has", "will", "can", "should", "must", "may", "might", "would", "could"}
)
# The fact alone does not tell whom these words mean.
UNCLEAR = frozenset({"he", "she", "it", "they", "this", "that", "these", "those", "there", "we"})
NUMBER = re.compile(r"\d+(?:[.,]\d+)*$")
TIME = re.compile(r"\d{1,2}:\d{2}(?::\d{2})?$|\d{1,2}(?:am|pm)$")
DATE = re.compile(r"\d{1,4}[-/]\d{1,2}(?:[-/]\d{1,4})?$")
ORDINAL = re.compile(r"(\d{1,2})(?:st|nd|rd|th)$")
FIRST_YEAR, LAST_YEAR = 1800, 2200
MIN_NEGATED_LENGTH = 4


@dataclass(frozen=True, slots=True)
class Claim:
    frame: str
    value: str


def claims_of(text: str) -> list[Claim]:
    """The claims of all sentences of a fact."""
    found = [claim for sentence in sentences(text) for claim in _claims(sentence)]
    return list(dict.fromkeys(found))[:MAX_CLAIMS]


def exclude_each_other(frame: str, one: str, other: str) -> bool:
    """Whether two values of one frame can't both be true."""
    if one == other:
        return False
    if frame.startswith("polar|"):
        # "Neither old nor young" is no contradiction: two denials never exclude each other.
        return one[0] != other[0] and not ("n" in one and "n" in other)
    if frame.startswith("slot|"):
        mine, theirs = set(one.split()), set(other.split())
        return not (mine <= theirs or theirs <= mine)
    return True


def _claims(sentence: str) -> Iterator[Claim]:
    tokens = [token for token in _joined(about_user(words(sentence))) if token not in FILLERS]
    if not MIN_SENTENCE_WORDS <= len(tokens) <= MAX_SENTENCE_WORDS or tokens[0] in UNCLEAR or "?" in sentence:
        return
    polar = _polar(tokens)
    if polar is not None:
        yield polar
    # A birth is in the past and still has one value; other past events may have many.
    past = PAST.intersection(tokens) and "born" not in tokens
    if not past and not NEGATIONS.intersection(tokens):
        number = _number(tokens)
        if number is not None:
            yield number
        slot = slot_of(tokens)
        if slot is not None:
            yield Claim(f"slot|{slot.subject}|{slot.attribute}", slot.value)


def _joined(tokens: list[str]) -> list[str]:
    """Replace phrases that mean one thing by one word."""
    text = f" {' '.join(tokens)} "
    for several, one in (
        (" no longer ", " not "),
        (" not any more ", " not "),
        (" not anymore ", " not "),
        (" any more ", " "),
        (" anymore ", " "),
        (" at all ", " "),
        (" gave up ", " stopped "),
        (" gives up ", " stopped "),
        (" can not stand ", " hates "),
        (" can not bear ", " hates "),
        (" fond of ", " likes "),
        (" fan of ", " likes "),
    ):
        text = text.replace(several, one)
    return text.split()


def _polar(tokens: list[str]) -> Claim | None:
    """The whole sentence as a statement that is affirmed or denied."""
    frame: list[str] = []
    sign, negated = 1, False
    for at, token in enumerate(tokens):
        if token in NEGATIONS or (at and token in STOPPING):
            sign, negated = -sign, True
        elif token in BE or (token in {"do", "does"} and at + 1 < len(tokens) and tokens[at + 1] == "not"):
            continue
        elif token in PAST:
            frame.append("past")
        else:
            word, meant = _meaning(token)
            sign *= meant
            frame.append(word)
    if len(frame) < MIN_SENTENCE_WORDS:
        return None
    return Claim(f"polar|{' '.join(frame)}", ("+" if sign > 0 else "-") + ("n" if negated else ""))


@lru_cache(maxsize=20_000)
def _meaning(token: str) -> tuple[str, int]:
    stemmed = stem_of(token)
    if stemmed in MEANING:
        return MEANING[stemmed]
    for prefix in ("un", "dis", "non"):
        rest = token.removeprefix(prefix)
        if rest != token and len(rest) >= MIN_NEGATED_LENGTH:
            return stem_of(rest), -1
    return stemmed, 1


def _number(tokens: list[str]) -> Claim | None:
    """The sentence without the numbers and dates after its verb, which are the value."""
    verb = _verb_at(tokens)
    if verb is None:
        return None
    rest = ["", *tokens[verb + 1 :], ""]
    counted = [_counted(*around) for around in zip(rest[1:], rest, rest[2:], strict=False)]
    values = [value for kind, value in counted if kind]
    if not values:
        return None
    kinds = [*[""] * (verb + 1), *(kind for kind, _ in counted)]
    frame = [kind or stem_of(token) for kind, token in zip(kinds, tokens, strict=True)]
    return Claim(f"number|{' '.join(frame)}", " ".join(values))


def _verb_at(tokens: list[str]) -> int | None:
    """The probable index of the verb: an auxiliary, or the first word that ends in -s like a verb."""
    for at, token in enumerate(tokens[1:], start=1):
        if token in BE or token in HELPERS:
            return at
        if token.endswith("s") and not token.endswith(("ss", "'s", "us", "is")) and tokens[at - 1] != "'s":
            return at
    return None


def _counted(token: str, before: str, after: str) -> tuple[str, str]:
    """The kind and the value of a number, time or day; two empty strings for any other word."""
    if token in WEEKDAYS:
        return "#weekday", token
    if token in MONTHS and (MONTHS[token] != token[:3] or _is_dated(before, after)):
        return "#month", MONTHS[token]
    if token[:1].isdigit():
        if TIME.match(token):
            return "#time", token
        if DATE.match(token):
            return "#date", token
        ordinal = ORDINAL.match(token)
        if ordinal:
            return "#number", ordinal[1]
    value = SMALL_NUMBERS.get(token, token)
    if not NUMBER.match(value):
        return "", ""
    is_year = value.isdigit() and FIRST_YEAR <= int(value) <= LAST_YEAR
    return "#year" if is_year else "#number", value


def _is_dated(before: str, after: str) -> bool:
    """Whether a word between these two is a month, though it may also be a name or a verb."""
    return before in {"in", "of", "last", "next"} or any(char.isdigit() for char in before + after)
