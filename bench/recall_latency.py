"""How long recall takes with many turns, beside a bare product with a numpy matrix of the same size.

The turns are made of real-looking words with real-looking frequencies; their vectors are random, because
making a hundred thousand real ones takes half an hour and changes nothing in the time to compare them.
"""

import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

from holdfast.core.clock import SystemClock
from holdfast.memory.contract import CompletedTurn
from holdfast.providers.local import LocalMemory, MiniLM
from holdfast.providers.local.embedding import missing_packages
from holdfast.providers.local.wordpiece import vocabulary
from holdfast.providers.local.words import STOP_WORDS

QUESTIONS = 200
GOAL_MS = 50
WIDTH = 384
WORDS = 20_000


class RandomVectors:
    """The real model for a question, random vectors for what is stored."""

    def __init__(self) -> None:
        self._minilm = MiniLM()
        self.model = self._minilm.model

    def embed(self, texts: Sequence[str]) -> Any:  # noqa: ANN401 - a numpy matrix
        import numpy as np

        if len(texts) == 1:
            return self._minilm.embed(texts)
        rows = np.random.default_rng(len(texts[0])).standard_normal((len(texts), WIDTH), dtype=np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class Speech:
    """Sentences whose words are as unevenly common as in a language (Zipf)."""

    def __init__(self) -> None:
        self._random = random.Random(1)  # noqa: S311 - made-up talk is no cryptography
        known = [word for word in vocabulary() if word.isalpha() and len(word) > 2 and word not in STOP_WORDS]
        self._words = known[:WORDS]
        self._weights = list(accumulate(1 / (rank + 10) for rank in range(len(self._words))))

    def sentence(self, length: int) -> str:
        return " ".join(self._random.choices(self._words, cum_weights=self._weights, k=length))


class Taken(NamedTuple):
    """Milliseconds by the wall clock, and of the calling thread's own CPU time: others' load is not in it."""

    wall: float
    cpu: float


def timed(call: Callable[[], object]) -> Taken:
    wall, cpu = time.perf_counter(), time.thread_time()
    call()
    return Taken((time.perf_counter() - wall) * 1000, (time.thread_time() - cpu) * 1000)


def latency_lines(turns: int, say: Callable[[str], None]) -> Iterator[str]:
    """A table: the whole recall, full text alone, and the control."""
    speech = Speech()
    embedder = None if missing_packages() else RandomVectors()
    with tempfile.TemporaryDirectory(prefix="holdfast-recall-") as folder:
        memory = LocalMemory(Path(folder) / "memory.db", clock=SystemClock(), embedder=embedder)
        say(f"storing {turns:,} turns")
        batch = 200
        for begin in range(0, turns, batch):
            memory.sync_turns(
                [made_turn(number, speech) for number in range(begin, min(begin + batch, turns))]
            )
        say("asking")
        opened = timed(lambda: memory.initialize(""))
        questions = [f"What did I say about the {speech.sentence(5)}?" for _ in range(QUESTIONS)]
        taken = {
            "full text alone": [timed(partial(memory.search, asked, 20, mode="text")) for asked in questions],
            "the whole prefetch": [timed(partial(memory.prefetch, asked)) for asked in questions],
        }
        memory.shutdown()
    control = None if embedder is None else _control(turns)
    yield from _table(turns, taken, control)
    yield ""
    yield (
        f"Load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores. "
        f"Reading all vectors and loading the model, once at the start: {opened.wall:.0f} ms."
    )


def _table(turns: int, taken: dict[str, list[Taken]], control: list[Taken] | None) -> Iterator[str]:
    yield f"| at {turns:,} turns, ms | median | 95th percentile | CPU, median | CPU to control | goal |"
    yield "|---|---|---|---|---|---|"
    if control is not None:
        yield f"| brute-force numpy (control) | {_cells(control)} | 1.0 | |"
    for name, each in taken.items():
        ratio = "" if control is None else f"{_cpu(each) / _cpu(control):.1f}"
        met = "met" if median(one.wall for one in each) < GOAL_MS else "**missed**"
        yield f"| {name} | {_cells(each)} | {ratio} | median < {GOAL_MS}: {met} |"


def _cells(taken: Sequence[Taken]) -> str:
    walls = [each.wall for each in taken]
    return f"{median(walls):.1f} | {quantiles(walls, n=20)[-1]:.1f} | {_cpu(taken):.1f}"


def _cpu(taken: Sequence[Taken]) -> float:
    return median(each.cpu for each in taken)


def made_turn(number: int, speech: Speech) -> CompletedTurn:
    session = f"s{number // 40}"
    return CompletedTurn(
        f"k{number}", session, f"t{number}", speech.sentence(25), "", [], 1.6e9 + 60.0 * number
    )


def _control(turns: int) -> list[Taken]:
    """One product with a float32 matrix, and the best hundred of it."""
    import numpy as np

    numbers = np.random.default_rng(1)
    matrix = numbers.standard_normal((turns, WIDTH), dtype=np.float32)
    query = numbers.standard_normal(WIDTH, dtype=np.float32)
    return [timed(lambda: np.argpartition(-(matrix @ query), 100)[:100]) for _ in range(QUESTIONS)]
