"""`QuestionEmbedder`: embeds questions that come together in one batch, and passages when nobody asks.

It is used in the worker process. A question has a deadline: when its vector is not made by then, recall goes
on without it. A passage waits while any question is being answered.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from holdfast.core.contract import Clock
from holdfast.providers.local.embedding import Embedder, EmbeddingLate

AT_ONCE = 8
# A passage waits no longer than this for a pause between questions.
LONGEST_WAIT_SECONDS = 1.0


@dataclass(slots=True, eq=False)
class AskedQuestion:
    """A question while it is being answered."""

    deadline: float
    is_late: bool = False
    """Whether it was answered without its vector."""


@dataclass(slots=True, eq=False)
class _Job:
    text: str
    rows: Any = None
    error: Exception | None = None
    done: threading.Event = field(default_factory=threading.Event)


class QuestionEmbedder:
    """An `Embedder` around another one. `run` is called on a thread of its own."""

    def __init__(self, embedder: Embedder, clock: Clock) -> None:
        self.model = embedder.model
        self._embedder = embedder
        self._clock = clock
        self._local = threading.local()  # `asked`: the question of this thread
        self._changed = threading.Condition()  # guards the fields below
        self._jobs: list[_Job] = []
        self._asking = 0

    @contextmanager
    def question(self, deadline: float) -> Iterator[AskedQuestion]:
        """What this thread embeds inside belongs to a question."""
        asked = self._local.asked = AskedQuestion(deadline)
        with self._changed:
            self._asking += 1
        try:
            yield asked
        finally:
            self._local.asked = None
            with self._changed:
                self._asking -= 1
                self._changed.notify_all()

    def embed(self, texts: Sequence[str]) -> Any:  # noqa: ANN401 - a numpy matrix
        asked: AskedQuestion | None = getattr(self._local, "asked", None)
        if asked is None:
            return self._in_pauses(texts)
        if asked.deadline <= self._clock.monotonic():
            asked.is_late = True
            raise EmbeddingLate  # without a job, which would take the model from those that have time
        jobs = [_Job(text) for text in texts]
        with self._changed:
            self._jobs += jobs
            self._changed.notify_all()
        for job in jobs:
            if not job.done.wait(max(0.0, asked.deadline - self._clock.monotonic())):
                self._withdraw(jobs)
                asked.is_late = True
                raise EmbeddingLate
            if job.error is not None:
                raise job.error
        import numpy as np

        return np.stack([job.rows for job in jobs])

    def run(self) -> None:
        """Embed the questions that wait, all together, for ever."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._jobs))
                jobs, self._jobs = self._jobs[:AT_ONCE], self._jobs[AT_ONCE:]
            self._embed_together(jobs)

    def _embed_together(self, jobs: list[_Job]) -> None:
        try:
            for job, row in zip(jobs, self._embedder.embed([job.text for job in jobs]), strict=True):
                job.rows = row
        except Exception as error:  # noqa: BLE001 - raised to each that asked
            for job in jobs:
                job.error = error
        for job in jobs:
            job.done.set()

    def _withdraw(self, jobs: list[_Job]) -> None:
        with self._changed:
            self._jobs = [each for each in self._jobs if each not in jobs]

    def _in_pauses(self, texts: Sequence[str]) -> Any:  # noqa: ANN401 - a numpy matrix
        """Embed one text after another, so that a vector does not depend on the others of its batch."""
        import numpy as np

        rows = []
        for text in texts:
            with self._changed:
                self._changed.wait_for(lambda: not self._asking, LONGEST_WAIT_SECONDS)
            rows.append(self._embedder.embed([text])[0])
        return np.stack(rows)
