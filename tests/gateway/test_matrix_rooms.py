"""What the Matrix adapter keeps in mind of its rooms."""

import asyncio
from typing import Any, cast

from holdfast.gateway.adapters.matrix_api import MatrixApi
from holdfast.gateway.adapters.matrix_receiver import MOST_ROOMS, MatrixRooms


class CountingApi:
    """A homeserver whose rooms have no members; it records for which rooms it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def call(self, method: str, path: str, **_: object) -> dict[str, Any]:
        assert method == "GET"
        if path.endswith("members"):
            self.asked.append(path.split("/")[-2])
        return {}


def test_only_the_rooms_that_were_active_last_are_kept_in_mind() -> None:
    async def scenario() -> None:
        api = CountingApi()
        rooms = MatrixRooms(cast("MatrixApi", api), "@bot:gw.test")
        names = [f"room{number}" for number in range(MOST_ROOMS)]
        for name in (*names, names[0], "one more", names[0]):
            await rooms.facts(name)
        assert len(api.asked) == MOST_ROOMS + 1, "each was asked for once"
        await rooms.facts(names[1])
        assert len(api.asked) == MOST_ROOMS + 2, "the one that rested longest is asked for anew"

    asyncio.run(scenario())
