"""Finds and ends all processes of one command, including grandchildren.

They share a process group, and they have a mark in their environment, by which those that left the group
(setsid, daemons) are found. Two kinds of processes are not found: one that left the group and cleared its
environment, and one that runs as another user.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

MARK = "_HOLDFAST_COMMAND"
POLL = 0.02
ROUNDS = 20
"""How often the tree is searched for processes that started while others were being killed."""
UNKNOWN = -1
"""The leader of a command whose start failed or was cancelled."""


def marked(environment: Mapping[str, str], mark: str) -> dict[str, str]:
    """The environment with one more mark. A command that runs inside another one has both marks."""
    return {**environment, MARK: ":".join(filter(None, (environment.get(MARK), mark)))}


class ProcessTree:
    """Every process of one command. `leader` is the id of its shell, and of its process group.

    With `watched`, the leader is not the shell but the program that watches the shell in a sandbox. SIGTERM
    would make it kill all others at once, so it gets none: it ends after the others, or is killed with them.
    """

    def __init__(self, leader: int, mark: str, *, watched: bool = False) -> None:
        self._leader = leader
        self._spared = {leader} if watched else set()
        self._mark = mark

    def group(self) -> set[int]:
        """The living processes of the group."""
        import psutil

        return {pid for pid in psutil.pids() if self._in_group(pid) and _is_alive(pid)}

    def living(self) -> set[int]:
        """All living processes of the command."""
        import psutil

        return {
            process.pid
            for process in psutil.process_iter()
            if (self._in_group(process.pid) or self._is_marked(process)) and _is_alive(process.pid)
        }

    async def end(self, grace: float, *, group_only: bool = False) -> None:
        """Ask them to end, and kill what is left after `grace` seconds, or when cancelled meanwhile."""
        find = self.group if group_only else self.living
        try:
            _signal(find() - self._spared, signal.SIGTERM)
            await _until_none(find, grace)
        finally:
            _kill(find)
        await _until_none(find, 1.0)

    def kill(self) -> None:
        """Kill them all, without waiting for anything."""
        _kill(self.living)

    async def settled(self, seconds: float) -> bool:
        """Whether the group ends by itself in time."""
        await _until_none(self.group, seconds)
        return not self.group()

    def _in_group(self, pid: int) -> bool:
        try:
            return os.getpgid(pid) == self._leader
        except OSError:
            return False

    def _is_marked(self, process: "psutil.Process") -> bool:
        import psutil

        try:
            return self._mark in process.environ().get(MARK, "").split(":")
        except (psutil.Error, OSError):
            return False


def _is_alive(pid: int) -> bool:
    """Whether it runs and is not this process. A zombie does not run."""
    import psutil

    try:
        ended = psutil.Process(pid).status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.Error:
        return False
    return not ended and pid != os.getpid()


def _signal(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _kill(find: Callable[[], set[int]]) -> None:
    for _ in range(ROUNDS):
        left = find()
        if not left:
            return
        _signal(left, signal.SIGKILL)


async def _until_none(find: Callable[[], set[int]], seconds: float) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while find() and loop.time() < deadline:  # noqa: ASYNC110 - other processes set no event
        await asyncio.sleep(POLL)
