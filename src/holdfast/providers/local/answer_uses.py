"""Tells which recalled lines an answer used, by rules: words that the answer shares and the question lacks.

Recall runs before a turn and delivery after it, so the lines of a recall are kept, by session and question,
until the turn is delivered by this process. A turn that another process delivers is not counted.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from holdfast.memory.contract import CompletedTurn
from holdfast.providers.holographic.tokens import stem_of
from holdfast.providers.local.passages import storable
from holdfast.providers.local.recall_block import RecalledLine
from holdfast.providers.local.words import STOP_WORDS, all_words

MAX_RECALLS = 512
# With so many shared words a line was used, whatever share of it they are.
ENOUGH_WORDS = 3
MIN_SHARE = 0.5


class RecalledLines:
    """The lines of recalls whose turns are not delivered yet. Thread-safe, bounded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _kept
        self._kept: OrderedDict[tuple[str, str], tuple[RecalledLine, ...]] = OrderedDict()

    def keep(self, session_id: str, question: str, lines: Sequence[RecalledLine]) -> None:
        with self._lock:
            self._kept[session_id, question] = tuple(lines)
            self._kept.move_to_end((session_id, question))
            while len(self._kept) > MAX_RECALLS:
                self._kept.popitem(last=False)

    def take(self, session_id: str, question: str) -> tuple[RecalledLine, ...]:
        """The lines that were recalled for a question; each recall counts once."""
        with self._lock:
            return self._kept.pop((session_id, question), ())

    def clear(self) -> None:
        """Something was forgotten; lines may have it."""
        with self._lock:
            self._kept.clear()


def kept_lines(sent: Sequence[Sequence[Any]]) -> list[RecalledLine]:
    """The lines of a recall that another process made: the id and the text of each passage."""
    return [RecalledLine("", text, 0.0, (), passage_id=passage_id) for passage_id, text in sent]


def used_lines(lines: Sequence[RecalledLine], turn: CompletedTurn) -> list[RecalledLine]:
    """The lines that the answer of a turn used."""
    answer = _stems(turn.assistant_content)
    asked = _stems(turn.user_content)
    return [line for line in lines if _is_used(line.text, answer, asked)]


def _is_used(text: str, answer: set[str], asked: set[str]) -> bool:
    telling = _stems(text) - asked
    shared = telling & answer
    if not shared:
        return False
    if len(shared) >= ENOUGH_WORDS or len(shared) / len(telling) >= MIN_SHARE:
        return True
    return any(each in shared for each in _names_and_numbers(text))


def _stems(text: str) -> set[str]:
    return {stem_of(word) for word in all_words(text) if word not in STOP_WORDS}


def _names_and_numbers(text: str) -> set[str]:
    """Words with a digit, and words with a capital that does not begin a sentence: they are rare."""
    found = set()
    begins = True
    for word in storable(text).split():
        plain = word.strip("\"'()[],;:.!?\u201c\u201d\u2018\u2019")
        if plain and (any(char.isdigit() for char in plain) or (plain[0].isupper() and not begins)):
            found |= _stems(plain)
        begins = word.endswith((".", "!", "?", ":"))
    return found
