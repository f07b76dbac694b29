"""A patient model asks again when a server fails in passing, and knows when to stop. No test waits."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import (
    AnswerEmpty,
    ContextTooLong,
    HoldfastError,
    KeyRejected,
    ModelBusy,
    ModelFailure,
    ModelUnreachable,
    Retryable,
    StreamBroken,
)
from holdfast.models.contract import Finished, ModelPiece, ModelRequest, Retrying, TextPiece
from holdfast.models.retrying_model import ModelRetryPolicy, RetryingModel
from holdfast.testing import FakeClock, ScriptedModel
from tests.models.model_fixtures import REQUEST, collect, run, text_of

DOWN = ModelUnreachable("m", "HTTP 503: down")
TOO_LATE = 10_000.0


class World:
    """A patient model on a clock that its waits advance."""

    def __init__(
        self,
        script: Sequence[Any],
        chance: float = 1.0,
        **policy: Any,  # noqa: ANN401 - those of the policy
    ) -> None:
        self.clock = FakeClock()
        self.model = ScriptedModel(script, name="m")
        self.waits: list[float] = []
        self.patient = RetryingModel(
            self.model, self.clock, ModelRetryPolicy(**policy), sleep=self.sleep, chance=lambda: chance
        )

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.clock.advance(seconds)

    def ask(self) -> list[ModelPiece]:
        return run(collect(self.patient))


def test_a_model_that_answers_is_asked_once() -> None:
    world = World(["fine"])
    assert world.ask() == [TextPiece("fine"), Finished("stop")]
    assert (world.model.played, world.waits) == (1, [])


@pytest.mark.parametrize(
    "fault",
    [
        DOWN,
        ModelBusy("m", "HTTP 429"),
        StreamBroken("m", "cut"),
        ["half a sen", StreamBroken("m", "cut")],
        "",
    ],
    ids=["5xx", "429", "dropped", "dropped midway", "empty"],
)
def test_a_passing_fault_is_announced_and_tried_again(fault: object) -> None:
    world = World([fault, "fine"])
    pieces = world.ask()
    retrying = [piece for piece in pieces if isinstance(piece, Retrying)]
    assert [(each.attempt, each.delay) for each in retrying] == [(1, 1.0)]
    assert retrying[0].problem
    assert world.waits == [1.0]
    assert text_of(pieces[pieces.index(retrying[0]) :]) == "fine"


@pytest.mark.parametrize("fault", [KeyRejected("m", "no"), ContextTooLong("m", "long"), ValueError("bug")])
def test_what_repeating_will_not_change_is_raised_at_once(fault: Exception) -> None:
    world = World([fault, "fine"])
    with pytest.raises(type(fault)) as raised:
        world.ask()
    assert raised.value is fault
    assert world.waits == []


def test_waits_grow_and_are_cut() -> None:
    world = World([DOWN] * 6 + ["fine"], attempts=7, longest_seconds=5)
    world.ask()
    assert world.waits == [1, 2, 4, 5, 5, 5]


def test_the_last_real_error_is_raised_after_the_last_attempt() -> None:
    world = World([DOWN, DOWN, StreamBroken("m", "cut in the end"), "never played"], attempts=3)
    with pytest.raises(StreamBroken, match=r"m did not answer: cut in the end \(after 3 attempts in 3 s\)"):
        world.ask()
    assert world.model.played == 3


def test_a_total_time_ends_the_attempts_too() -> None:
    world = World([DOWN] * 50, attempts=50, total_seconds=10)
    with pytest.raises(ModelUnreachable, match="HTTP 503: down"):
        world.ask()
    assert sum(world.waits) <= 10
    assert world.waits == [1, 2, 4]


def test_time_spent_on_a_good_answer_before_it_broke_does_not_count() -> None:
    def long_answer(_: ModelRequest) -> object:
        world.clock.advance(TOO_LATE)
        return ["a long answer", StreamBroken("m", "cut")]

    world = World([long_answer, "fine"], total_seconds=10)
    assert text_of(world.ask()).endswith("fine")


def test_the_server_is_left_alone_as_long_as_it_asks() -> None:
    world = World([ModelBusy("m", "HTTP 429", retry_after=42), "fine"], chance=0.0)
    world.ask()
    assert world.waits == [42]


def test_a_server_that_asks_for_more_than_the_patience_is_not_waited_for() -> None:
    world = World([ModelBusy("m", "HTTP 429: slow down", retry_after=7200), "never"], total_seconds=60)
    with pytest.raises(ModelBusy, match=r"slow down.*7200 s.*after 2023-11-15 00:13:20 UTC") as raised:
        world.ask()
    assert (world.waits, raised.value.retry_after) == ([], 7200)


def test_a_wait_without_end_is_no_crash() -> None:
    world = World([ModelBusy("m", "HTTP 429", retry_after=1e300)])
    with pytest.raises(ModelBusy, match="try again after 9999"):
        world.ask()


def test_a_retryable_error_of_another_kind_is_tried_again_and_kept() -> None:
    class Odd(ModelFailure, Retryable):
        pass

    odd = Odd("odd")
    assert text_of(World([odd, "fine"]).ask()) == "fine"
    with pytest.raises(Odd) as raised:
        World([odd, odd], attempts=2).ask()
    assert raised.value is odd


def test_a_model_that_ends_without_saying_so_is_tried_again() -> None:
    class Mute(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
            async for piece in super().stream(request):
                if self.played > 1 or not isinstance(piece, Finished):
                    yield piece

    world = World([])
    world.patient = RetryingModel(Mute(["half", "whole"]), world.clock, sleep=world.sleep)
    assert text_of(world.ask()).endswith("whole")
    assert len(world.waits) == 1


@pytest.mark.clause("I6")
def test_a_wait_is_cut_short_by_a_cancellation() -> None:
    async def ask() -> None:
        waiting = asyncio.Event()

        async def sleep(_: float) -> None:
            waiting.set()
            await asyncio.Event().wait()

        patient = RetryingModel(ScriptedModel([DOWN, "never"]), FakeClock(), sleep=sleep)
        reading = asyncio.ensure_future(collect(patient))
        await waiting.wait()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    run(ask())


@pytest.mark.clause("I6")
def test_closing_the_generator_closes_the_models_own() -> None:
    closed: list[bool] = []

    class Watched(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
            try:
                async for piece in super().stream(request):
                    yield piece
            finally:
                closed.append(True)

    async def ask() -> None:
        async with aclosing(RetryingModel(Watched(["a b c"]), FakeClock()).stream(REQUEST)) as pieces:
            await anext(pieces)
        assert closed == [True]

    run(ask())


def test_closing_closes_the_model_and_its_traits_show_through() -> None:
    world = World(["fine"])
    assert world.patient.traits is world.model.traits
    run(world.patient.close())
    assert world.model.closed


@given(
    st.lists(
        st.sampled_from([DOWN, AnswerEmpty("m", "e")])
        | st.floats(0, 1e6).map(lambda wait: ModelBusy("m", "b", wait)),
        max_size=12,
    ),
    st.floats(0, 1),
    st.integers(1, 8),
    st.floats(0.1, 1000),
)
def test_patience_is_bounded_and_never_shorter_than_asked(
    faults: list[ModelUnreachable], chance: float, attempts: int, total: float
) -> None:
    world = World([*faults, "fine"], chance, attempts=attempts, total_seconds=total)
    gave_up: HoldfastError | None = None
    try:
        assert text_of(world.ask()) == "fine"
    except HoldfastError as raised:
        gave_up = raised
    assert gave_up is None or type(gave_up) is type(faults[len(world.waits)])
    assert world.model.played <= attempts
    assert sum(world.waits) <= total + 1e-6
    for fault, waited in zip(faults, world.waits, strict=False):
        assert waited >= (fault.retry_after or 0) - 1e-6
