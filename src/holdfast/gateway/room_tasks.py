"""`RoomTasks`: works for each room in a task of its own, so that no room waits for another one's files."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any


class RoomTasks:
    """The rooms of one account that are worked for now.

    The work of a room returns in how many seconds it wants to be looked at again, 0 when all is done. `wake`
    is called then; also at once after the work, since more may have come for the room meanwhile.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._tasks: dict[int, asyncio.Task[float]] = {}
        self._failed: list[BaseException] = []

    def busy(self) -> set[int]:
        return set(self._tasks)

    def start(self, room_id: int, work: Coroutine[Any, Any, float]) -> None:
        """Begin the work of a room that is not busy."""
        task = self._tasks[room_id] = asyncio.create_task(work, name=f"chat room {room_id}")
        task.add_done_callback(partial(self._ended, room_id))

    def check(self) -> None:
        """Raise what the work of a room raised."""
        if self._failed:
            raise self._failed.pop()

    async def close(self) -> None:
        """End all work."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, room_id: int, task: asyncio.Task[float]) -> None:
        del self._tasks[room_id]
        if task.cancelled():
            return
        if (failure := task.exception()) is not None:
            self._failed.append(failure)
        elif pause := task.result():
            asyncio.get_running_loop().call_later(pause, self._wake)
            return
        self._wake()
