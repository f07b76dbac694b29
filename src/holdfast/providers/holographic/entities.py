"""Finds the entities of a fact by how names are written. Pure functions.

A word that is taken for an entity by mistake does no harm: it only adds a way to find the fact.
"""

import re
from itertools import chain

from holdfast.providers.holographic.lexicon import MONTHS, WEEKDAYS
from holdfast.providers.holographic.tokens import (
    FIRST_PERSON,
    USER,
    name_key,
    normalise,
    sentences,
    words,
)
from holdfast.providers.local.words import STOP_WORDS

MAX_NAMES = 12
MAX_LENGTH = 80
MAX_QUOTE_WORDS = 5
QUOTED = re.compile(
    r"\"([^\"\n]{2,80})\"|\u201c([^\u201d\n]{2,80})\u201d|«([^»\n]{2,80})»|「([^」\n]{1,80})」|`([^`\n]{2,80})`"
)
ALIAS = re.compile(
    r"(?P<name>[^\W\d_][\w.'-]*(?: [A-Z][\w.'-]*){0,3}),? \(?(?:(?:is|are) )?"
    r"(?:[Aa][Kk][Aa]|a\.k\.a\.|also known as|also called|known as|nicknamed) "
    r"(?P<alias>[^\W\d_][\w'-]*(?: [A-Z][\w'-]*){0,3})"
)
IDENTIFIER = re.compile(r"(?<![\w@])@?[A-Za-z][\w]*(?:[._/-][\w]+)+|(?<!\w)@\w{2,}")
CAPITALISED = re.compile(r"[^\W\d_][\w'&-]*")
JOINING = frozenset({"of", "de", "la", "van", "von", "der", "den", "del", "da", "di", "du", "al", "and", "&"})
# At the start of a sentence these are ordinary words, not names.
OPENERS = STOP_WORDS | frozenset(
    """actually also always another anyone anything before ever every everyone everything finally first
    however last later let maybe never next nobody nothing now often oh ok okay one perhaps please remember
    sometimes someone something soon sure thanks today tomorrow tonight two well yes yesterday yet hi hello
    hey great note use using used see my our""".split()  # noqa: SIM905 - easier to read as prose
)
DAYS = MONTHS.keys() | WEEKDAYS


def entities_of(text: str) -> list[str]:
    """The names in a text, each once, as they are written there; `user` for the user."""
    found = [*_quoted(text), *IDENTIFIER.findall(text), *_capitalised(text)]
    if any(word in FIRST_PERSON or word == USER for word in words(text)):
        found.insert(0, USER)
    named = {name_key(name): name for name in reversed(found) if _usable(name)}
    return list(reversed(named.values()))[:MAX_NAMES]


def aliases_of(text: str) -> list[tuple[str, str]]:
    """The pairs (name, alias) that the text states."""
    return [(found["name"], found["alias"]) for found in ALIAS.finditer(normalise(text))]


def _usable(name: str) -> bool:
    key = name_key(name)
    return bool(key) and len(name) <= MAX_LENGTH and (key not in STOP_WORDS) and key not in DAYS


def _quoted(text: str) -> list[str]:
    parts = chain.from_iterable(QUOTED.findall(text))
    return [part.strip() for part in parts if part.strip() and len(part.split()) <= MAX_QUOTE_WORDS]


def _capitalised(text: str) -> list[str]:
    return [name for sentence in sentences(normalise(text)) for name in _names_in(sentence)]


def _names_in(sentence: str) -> list[str]:
    names: list[list[str]] = []
    run: list[str] = []
    end = 0
    for found in CAPITALISED.finditer(sentence):
        word = found[0].removesuffix("'s").strip("'-&")
        adjoining = sentence[end : found.start()] == " "
        end = found.end()
        if not adjoining:
            names.append(run)
            run = []
        is_name = word[:1].isupper() and (run or word.casefold() not in OPENERS)
        if is_name or (run and word.casefold() in JOINING):
            run.append(word)
        else:
            names.append(run)
            run = []
        if found[0].endswith("'s"):
            names.append(run)
            run = []
    names.append(run)
    return [" ".join(trimmed) for name in names if (trimmed := _without_joining_end(name))]


def _without_joining_end(name: list[str]) -> list[str]:
    while name and name[-1].casefold() in JOINING:
        name = name[:-1]
    return name
