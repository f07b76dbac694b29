"""`RepetitionGuard`: ends the answer of a very small model before it says the same thing until its limit.

Such a model falls into a loop: it repeats a sentence, or a few words, for as long as it may. The guard reads
the answer as it comes and says where it should have ended.
"""

import re
from collections import Counter

SENTENCE = re.compile(r"[^.!?\n]+[.!?]+(?=\s|$)|[^\n]+\n")
MIN_SENTENCE = 12
"""Shorter ones, such as "Yes." or an item of a list, do not count."""
MOST_SHORT = 3
"""How often a short one may come."""
LONGEST_LOOP = 120
MIN_LOOP = 4
LOOPS = 4
"""The same letters so many times in a row are a loop, also within one sentence."""


class RepetitionGuard:
    """Reads one answer. `most_sentences` is how many it may have; None: any number."""

    def __init__(self, most_sentences: int | None = None) -> None:
        self._most = most_sentences
        self._text = ""
        self._given = 0
        self.ended = False

    def take(self, piece: str) -> str:
        """What may be said once the next piece is there; `ended` is set when nothing more may.

        The beginning of a sentence that was said before is held back until it goes on differently.
        """
        if self.ended:
            return ""
        self._text += piece
        end, held_from = self._ends()
        self.ended = end is not None
        return self._said(held_from if end is None else end)

    def rest(self) -> str:
        """What was held back, when the answer has ended by itself."""
        return "" if self.ended else self._said(len(self._text))

    def _said(self, until: int) -> str:
        said, self._given = self._text[self._given : until], max(self._given, until)
        return said

    def _ends(self) -> tuple[int | None, int]:
        """Where the answer should have ended, None while it may go on; and up to where it may be said."""
        said: Counter[str] = Counter()
        last = sentences = 0
        for found in SENTENCE.finditer(self._text):
            sentence = _plain(found[0])
            is_short = len(sentence) < MIN_SENTENCE
            if said[sentence] >= (MOST_SHORT if is_short else 1):
                return last, last
            if any(char.isalpha() for char in sentence):
                said[sentence] += 1
            last = found.end()
            sentences += not is_short
            if self._most is not None and sentences >= self._most:
                return last, last
        opening = _plain(self._text[last:])
        is_known = any(len(each) >= MIN_SENTENCE and each.startswith(opening) for each in said)
        return self._loop(), last if is_known else len(self._text)

    def _loop(self) -> int | None:
        """Where the same letters begin to come again and again at the end of the text."""
        tail = self._text[-LOOPS * LONGEST_LOOP :]
        for length in range(MIN_LOOP, len(tail) // LOOPS + 1):
            part = tail[-length:]
            if part.strip() and tail.endswith(part * LOOPS):
                return len(self._text) - (LOOPS - 1) * length
        return None


def _plain(sentence: str) -> str:
    return " ".join(sentence.split()).casefold()
