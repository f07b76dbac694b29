"""The search words of a query: without stop words, and quoted for FTS5."""

import re
import unicodedata
from itertools import pairwise

from holdfast.providers.local.passages import UNSPACED, storable, unspaced

MAX_WORDS = 32
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
    """The words of letters and digits, in lower case, with combining marks."""
    kept = (char if unicodedata.category(char)[0] in "LNM" else " " for char in storable(query).lower())
    return "".join(kept).split()


def query_words(query: str) -> list[str]:
    """The words without stop words, each once; all words when only stop words are left."""
    spaced = UNSPACED.sub(" ", query)
    words = [word for word in all_words(spaced) if word not in STOP_WORDS] or all_words(spaced)
    return list(dict.fromkeys([*words, *unspaced(storable(query)).split()]))[:MAX_WORDS]


def quoted(word: str) -> str:
    """A word in quotes, so that FTS5 takes it for no operator."""
    return '"' + re.sub('"', "", word) + '"'


def names_in(query: str) -> list[str]:
    """Possible names of speakers: every word, and every pair of neighbouring words."""
    words = all_words(query)[: 2 * MAX_WORDS]
    return [*words, *(f"{first} {second}" for first, second in pairwise(words))]
