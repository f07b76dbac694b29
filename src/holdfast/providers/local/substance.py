"""How much a passage can tell, by its own words: a statement tells, a question does not. Pure functions.

Recall adds this to what both searches found. `docs/recall.md` says what each part gains.
"""

import re

from holdfast.providers.local.passages import UNSPACED
from holdfast.providers.local.words import STOP_WORDS

QUESTION = re.compile(r"[^.!?。！？\n]*[?？]")  # noqa: RUF001 - the marks of Chinese and Japanese
WORD = re.compile(r"\w+")
# With this many different words a passage has half of the full substance.
HALF = 5
ASKS_FOR_TIME = re.compile(
    r"\b(when|how long|how many (day|week|month|year)s|(what|which) (date|day|week|month|year|time))\b",
    re.IGNORECASE,
)
# Without "may", which is more often a verb.
TELLS_TIME = re.compile(
    r"\b(yesterday|today|tonight|tomorrow|last|next|ago|since|recently|morning|night|weekend|weeks?|months?|years?"
    r"|(mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|june|july|august|september"
    r"|october|november|december|spring|summer|winter|\d{4})\b",
    re.IGNORECASE,
)


def substance(text: str) -> float:
    """From 0 to below 1: grows with the different words outside questions, without stop words."""
    statements = QUESTION.sub(" ", text)
    words = len({word for word in WORD.findall(statements.lower()) if word not in STOP_WORDS})
    words += sum(len(run) // 2 for run in UNSPACED.findall(statements))
    return words / (words + HALF)


def asks_for_time(query: str) -> bool:
    """Whether the answer is a date or a duration."""
    return ASKS_FOR_TIME.search(query) is not None


def tells_time(text: str) -> bool:
    """Whether it names a day, a month or another time."""
    return TELLS_TIME.search(text) is not None
