"""A preview and its answer are one message, whatever comes between them."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest

from holdfast.gateway.contract import Place, Repeat, Route
from holdfast.models.contract import Finished, ModelPiece, ModelRequest, TextPiece
from holdfast.process import run
from holdfast.sessions import SessionDB
from holdfast.testing import ScriptedModel
from holdfast.testing.memory_platform import MemoryPlatform
from tests.gateway.gateway_fixtures import a_gateway, let_in, traits, until_status

pytestmark = pytest.mark.soak_cases("postgres")  # the store's own suite tries both engines

BEGINNING, REST = "Once upon a time", " there was a ledger."
REPEATS: tuple[Repeat, ...] = ("key", "look", "placeholder")


class HaltingModel(ScriptedModel):
    """Stops in the middle of its answer until the gate is open."""

    def __init__(self, gate: asyncio.Event) -> None:
        super().__init__()
        self._gate = gate

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        yield TextPiece(BEGINNING)
        await self._gate.wait()
        yield TextPiece(REST)
        yield Finished("stop", None)


def said(platform: MemoryPlatform, place: Place) -> list[str]:
    return [each.text for each in platform.seen(place) if each.by_bot]


async def interrupted_by(
    db: SessionDB, repeat: Repeat, disturb: Callable[[MemoryPlatform, Place], Awaitable[None]]
) -> list[str]:
    """What a chat shows in the end when something happens between a preview and its answer."""
    gate = asyncio.Event()
    platform = MemoryPlatform(traits(repeat=repeat))
    let_in(db, "ada")
    place = await platform.direct("ada")
    async with a_gateway(db, platform, lambda _: HaltingModel(gate)) as (_, host):
        await platform.say(place, "ada", "tell me a story")
        await platform.until(lambda: said(platform, place) == [BEGINNING])
        await disturb(platform, place)
        gate.set()
        await until_status(host, lambda now: now.posts.keys() == {"sent"})
    return said(platform, place)


@pytest.mark.parametrize("repeat", REPEATS)
def test_an_answer_comes_after_what_was_said_during_its_turn(db: SessionDB, repeat: Repeat) -> None:
    async def ask_for_help(platform: MemoryPlatform, place: Place) -> None:
        await platform.say(place, "ada", "/help")
        await platform.until(lambda: any("/retry" in each for each in said(platform, place)))

    shown = run(interrupted_by(db, repeat, ask_for_help))
    assert ["/retry" in each for each in shown] == [True, False]
    assert shown[1] == BEGINNING + REST


@pytest.mark.parametrize("repeat", REPEATS)
def test_a_preview_that_a_person_deleted_is_answered_anew(db: SessionDB, repeat: Repeat) -> None:
    async def delete_the_preview(platform: MemoryPlatform, place: Place) -> None:
        (preview,) = [each for each in platform.seen(place) if each.by_bot]
        platform.server.delete(Route(place), preview.id)

    assert run(interrupted_by(db, repeat, delete_the_preview)) == [BEGINNING + REST]
