"""Tells which recalled lines an answer used, by rules: words that the answer shares and the question lacks.

Recall runs before a turn and delivery after it, so the lines of a recall are kept, by session and question,
until the turn is delivered by this process. A turn that another process delivers is not counted.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence

from holdfast.memory.contract import CompletedTurn
from holdfast.providers.holographic.tokens import stem_of
from holdfast.providers.local.passages import storable
from holdfast.providers.local.words import STOP_WORDS, all_words

MAX_RECALLS = 512
# With so many shared words a line was used, whatever share of it they are.
ENOUGH_WORDS = 3
MIN_SHARE = 0.5


class RecalledLines:
    """The lines of recalls whose turns are not delivered yet. Thread-safe, bounded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _kept
        self._kept: OrderedDict[tuple[str, str], Sequence[tuple[int, str]]] = OrderedDict()

    def keep(self, session_id: str, question: str, lines: Sequence[tuple[int, str]]) -> None:
        """Keep the id and the text of each passage that was recalled for a question."""
        key = storable(session_id), storable(question)
        with self._lock:
            self._kept[key] = lines
            self._kept.move_to_end(key)
            while len(self._kept) > MAX_RECALLS:
                self._kept.popitem(last=False)

    def take(self, turn: CompletedTurn) -> tuple[list[int], list[int]]:
        """The passages that were recalled for a turn, once, and those of them that its answer used."""
        with self._lock:
            lines = self._kept.pop((storable(turn.session_id), storable(turn.user_content)), ())
        if not lines:
            return [], []
        answer, asked = _stems(turn.assistant_content), _stems(turn.user_content)
        return [each for each, _ in lines], [each for each, text in lines if _is_used(text, answer, asked)]

    def clear(self) -> None:
        """Something was forgotten; lines may have it."""
        with self._lock:
            self._kept.clear()


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
