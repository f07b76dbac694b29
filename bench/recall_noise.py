"""How similar a passage without a word of the question must be: what a threshold keeps out and costs.

Noise is what a search lists, out of 20, for a matter that no conversation has a word of.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from bench.recall_ideas import BUILT_IN, DEPTHS, scores
from bench.recall_talks import Talk
from holdfast.providers.local.recall import MIN_SIMILARITY
from holdfast.providers.local.words import query_words

THRESHOLDS = (0.0, 0.1, 0.2, 0.25, MIN_SIMILARITY, 0.3, 0.35, 0.4)
ABSENT = (
    "bread",
    "volcano",
    "submarine",
    "giraffe",
    "trombone",
    "passport",
    "astronaut",
    "lawnmower",
    "how to change a tyre",
    "the deadline of the tax return",
    "the plot of Hamlet",
    "quantum computing",
    "fix a leaking tap",
    "stock market crash",
    "recipe for goulash",
    "football results",
)


def noise_lines(kinds: Sequence[Sequence[Talk]]) -> Iterator[str]:
    """A line for each threshold; the conversations given, then the made-up ones."""
    yield "| least similarity | R@5 / 10 / 20 | made-up chats | lines listed for an absent matter |"
    yield "|---|---|---|---|"
    for least in THRESHOLDS:
        chosen = " (built in)" if least == MIN_SIMILARITY else ""
        recall = " | ".join(_recall(talks, least) for talks in kinds)
        yield f"| {least:.2f}{chosen} | {recall} | {_noise(kinds, least):.1f} |"


def _recall(talks: Sequence[Talk], least: float) -> str:
    shares = []
    for talk in talks:
        for question, evidence in enumerate(talk.evidence):
            near = talk.vectors @ talk.question_vectors[question] >= least
            with_word = talk.text_scores(talk.words_of(question), BUILT_IN.saturation) > 0
            kept = np.where(near | with_word, scores(talk, question, BUILT_IN), -1.0)
            found = [
                one for one in np.argsort(-kept, kind="stable")[: max(DEPTHS)].tolist() if kept[one] > -1
            ]
            shares.append([len(evidence.intersection(found[:depth])) / len(evidence) for depth in DEPTHS])
    return " / ".join(f"{100 * value:.1f}" for value in np.array(shares).mean(axis=0))


def _noise(kinds: Sequence[Sequence[Talk]], least: float) -> float:
    listed = []
    for talk in (talk for talks in kinds for talk in talks):
        absent = [each for each in ABSENT if not any(talk.word(word).any() for word in query_words(each))]
        near = talk.embed(absent) @ talk.vectors.T >= least
        listed.extend(np.minimum(near.sum(axis=1), max(DEPTHS)).tolist())
    return float(np.mean(listed))
