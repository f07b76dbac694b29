"""How much a passage can tell, by its own words: a statement tells, a question does not. Pure functions.

Recall adds this to what both searches found. `docs/recall.md` says what each part gains.
"""

import re

from holdfast.providers.local.passages import UNSPACED
from holdfast.providers.local.words import STOP_WORDS

SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]*")  # noqa: RUF001 - the marks of Chinese and Japanese
QUESTION_MARKS = ("?", "？")  # noqa: RUF001 - see above
WORD = re.compile(r"\w+")
# With this many different words a passage has half of the full substance.
HALF = 5
ASKS_FOR_TIME = re.compile(
    r"\b(when|how long|how many (day|week|month|year)s|(what|which) (date|day|week|month|year|time))\b",
    re.IGNORECASE,
)
# Without "may", which is more often a verb.
TIMES = frozenset(
    """yesterday today tonight tomorrow last next ago since recently morning night weekend week weeks month
    months year years monday tuesday wednesday thursday friday saturday sunday january february march april
    june july august september october november december spring summer winter""".split()  # noqa: SIM905 - easier to read as prose
)
MONTHS = frozenset(
    """january february march april may june july august september october november december""".split()  # noqa: SIM905 - as above
)
A_MAY = re.compile(
    r"\b(\d{1,2}|by|during|early|in|late|mid|of|on|since|until)[ -]may\b|\bmay,? \d", re.IGNORECASE
)
A_YEAR = re.compile(r"\b(?:19|20)\d\d\b")


def substance(text: str) -> float:
    """From 0 to below 1: grows with the different words outside questions, without stop words."""
    if any(mark in text for mark in QUESTION_MARKS):
        text = " ".join(each for each in SENTENCE.findall(text) if not each.endswith(QUESTION_MARKS))
    words = len(set(WORD.findall(text.lower())) - STOP_WORDS)
    if not text.isascii():
        words += sum(len(run) // 2 for run in UNSPACED.findall(text))
    return words / (words + HALF)


def asks_for_time(query: str) -> bool:
    """Whether the answer is a date or a duration."""
    return ASKS_FOR_TIME.search(query) is not None


def dates_asked(query: str) -> list[frozenset[str]]:
    """The months and the years that the query names, in lower case; what was said then has one of each."""
    months = MONTHS.intersection(WORD.findall(query.lower()))
    if "may" in months and A_MAY.search(query) is None:
        months -= {"may"}
    return [each for each in (months, frozenset(A_YEAR.findall(query))) if each]


def tells_time(text: str) -> bool:
    """Whether it names a day, a month or another time."""
    return not TIMES.isdisjoint(WORD.findall(text.lower()))
