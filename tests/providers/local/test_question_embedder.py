"""Questions that come together are embedded together, and one without time is not embedded at all."""

import threading

import pytest

from holdfast.providers.local.embedding import EmbeddingLate
from holdfast.providers.local.question_embedder import QuestionEmbedder
from holdfast.testing import FakeClock

pytest.importorskip("numpy")

from tests.providers.local.hashing_embedder import HashingEmbedder


@pytest.fixture
def model() -> HashingEmbedder:
    return HashingEmbedder()


def running(model: HashingEmbedder, clock: FakeClock) -> QuestionEmbedder:
    embedder = QuestionEmbedder(model, clock)
    threading.Thread(target=embedder.run, daemon=True).start()
    return embedder


def test_questions_that_are_late_already_do_not_take_the_model_from_others(model: HashingEmbedder) -> None:
    clock = FakeClock()
    embedder = running(model, clock)
    for _ in range(200):
        with embedder.question(clock.monotonic()) as late, pytest.raises(EmbeddingLate):
            embedder.embed(["too late"])
        assert late.is_late
    with embedder.question(clock.monotonic() + 60.0) as asked:
        embedder.embed(["in time"])
    assert not asked.is_late
    assert model.embedded == ["in time"]
