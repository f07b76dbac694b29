"""Texts to store: English-like, seeded, the same for every store.

Words follow a Zipf-like law over a made vocabulary with English endings, so stemming, compression of
the index and rare and common words behave as they do for real chats.
"""

import random
from itertools import accumulate

from holdfast.core.contract import Message

SEED = 20_260_101
VOCABULARY = 40_000
SHORT, LONG = 200, 800
"""Characters of a user's and of an assistant's message."""

COMMON = (
    "the of and to a in is that it for you was on are with as be this have from or one had by not "
    "but what all were when we there can an your which their if do will each about how up out them "
    "then she many some so these would other into has more her two like him see time could no make "
    "than first been its who now people my made over did down only way find use may water long "
    "little very after words called just where most know"
)
ONSETS = "b c d f g h l m n p r s t v w br cl cr dr fl gr pl pr sh sp st str th tr"
VOWELS = "a e i o u ea ou ai"
CODAS = "b d g l m n p r s t x ck ld nd nt rk rm st"
ENDINGS = ("", "", "", "s", "ed", "ing", "ly", "er", "ation", "ness")


class Texts:
    """An endless supply of messages, two to a turn; the same ones for the same seed."""

    def __init__(self, seed: int = SEED) -> None:
        self._random = random.Random(seed)  # noqa: S311 - repeatable texts, no secret
        # The vocabulary is one and the same for every seed, so that queries find their words.
        self.words = _vocabulary(random.Random(SEED))  # noqa: S311
        self._weights = list(accumulate(1 / (rank + 2.7) for rank in range(len(self.words))))

    def text(self, length: int) -> str:
        """Sentences of about `length` characters."""
        chosen = self._random.choices(self.words, cum_weights=self._weights, k=length // 4)
        kept, size, start = [], 0, True
        for count, word in enumerate(chosen):
            size += len(word) + 1
            if size > length:
                break
            kept.append(word.capitalize() if start else word)
            start = count % 12 == 11
            if start:
                kept[-1] += "."
        return " ".join(kept)

    def take(self, count: int) -> list[Message]:
        """The next `count` messages: a user's and an assistant's in turn."""
        return [
            {"role": "assistant", "content": self.text(LONG)}
            if number % 2
            else {"role": "user", "content": self.text(SHORT)}
            for number in range(count)
        ]


def _vocabulary(source: random.Random) -> list[str]:
    words = dict.fromkeys(COMMON.split())
    onsets, vowels, codas = ONSETS.split(), VOWELS.split(), CODAS.split()
    while len(words) < VOCABULARY:
        # The rarer the word, the longer.
        syllables = 1 + (len(words) > 1_000) + (source.random() < 0.4)
        stem = "".join(
            source.choice(onsets) + source.choice(vowels) for _ in range(syllables)
        ) + source.choice(codas)
        words[stem + source.choice(ENDINGS)] = None
    return list(words)
