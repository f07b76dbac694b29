"""A question as words to look for: without those in every text, and safe for the index's language."""

import re
import unicodedata
from itertools import pairwise

from holdfast.memory.providers.local.passages import UNSPACED, storable, unspaced

MOST_WORDS = 32
STOP_WORDS = frozenset(
    """a about above after again all also am an and any are as at be because been before being below between
    both but by can could d did do does doing don down during each few for from further had has have having
    he her here hers herself him himself his how i if in into is it its itself just likely ll m me might more
    most my myself no nor not of off on once only or other our ours ourselves out over own re s same she
    should so some such t than that the their theirs them themselves then there these they this those through
    to too under until up ve very was we were what when where which while who whom why will with would you
    your yours yourself yourselves""".split()  # noqa: SIM905 - easier to read as prose
)
FIRST_PERSON = frozenset({"i", "me", "my", "mine", "myself"})
SECOND_PERSON = frozenset({"you", "your", "yours", "yourself"})


def all_words(query: str) -> list[str]:
    """Runs of letters and digits, in lower case, with the marks that belong to them."""
    kept = (char if unicodedata.category(char)[0] in "LNM" else " " for char in storable(query).lower())
    return "".join(kept).split()


def query_words(query: str) -> list[str]:
    """The words that tell texts apart, each once. All of them when there are no others."""
    spaced = UNSPACED.sub(" ", query)
    words = [word for word in all_words(spaced) if word not in STOP_WORDS] or all_words(spaced)
    return list(dict.fromkeys([*words, *unspaced(storable(query)).split()]))[:MOST_WORDS]


def quoted(word: str) -> str:
    """One word in the language of FTS5, where nothing in quotes is an operator."""
    return '"' + re.sub('"', "", word) + '"'


def names_in(query: str) -> list[str]:
    """What may be a speaker's name: every word, and every two in a row."""
    words = all_words(query)[: 2 * MOST_WORDS]
    return [*words, *(f"{first} {second}" for first, second in pairwise(words))]
