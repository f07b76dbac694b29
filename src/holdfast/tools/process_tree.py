"""Finding and ending all processes of one command, its grandchildren too.

They share a process group, and they carry a mark in their environment. On Linux the mark finds those that
left the group (setsid, daemons). Out of reach are: a process that wiped its environment after leaving the
group, one that runs as another user, and on other systems every process that left the group.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

MARK = "_HOLDFAST_COMMAND"
PROC = Path("/proc")
POLL = 0.02
ROUNDS = 20
"""How often the tree is looked through for processes that were born while it was being killed."""
UNKNOWN = -1
"""The leader of a command that was not seen to start."""
GONE = "ZX"
"""States of a process that has ended and only waits to be counted."""


class ProcessTree:
    """Every process of one command. `leader` is its shell, and the number of its group."""

    def __init__(self, leader: int, mark: str) -> None:
        self._leader = leader
        self._mark = f"{MARK}={mark}".encode()

    def group(self) -> set[int]:
        """The living processes of the group."""
        return {pid for pid in _processes() if self._in_group(pid)} if PROC.is_dir() else self._probe()

    def living(self) -> set[int]:
        """All living processes of the command."""
        if not PROC.is_dir():
            return self._probe()
        return {pid for pid in _processes() if self._in_group(pid) or self._is_marked(pid)}

    async def end(self, grace: float, *, group_only: bool = False) -> None:
        """Ask them to end, and kill what is left after `grace` seconds, or when cancelled meanwhile."""
        find = self.group if group_only else self.living
        try:
            _signal(find(), signal.SIGTERM)
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
        state = _stat(pid)
        return state is not None and state[0] not in GONE and state[1] == self._leader

    def _is_marked(self, pid: int) -> bool:
        try:
            environment = (PROC / str(pid) / "environ").read_bytes()
        except OSError:
            return False
        if self._mark not in environment.split(b"\0"):
            return False
        state = _stat(pid)
        return state is not None and state[0] not in GONE

    def _probe(self) -> set[int]:
        if self._leader == UNKNOWN:
            return set()
        try:
            os.killpg(self._leader, 0)
        except (ProcessLookupError, PermissionError):
            return set()
        return {-self._leader}  # as `kill` takes it: the whole group


def _processes() -> list[int]:
    own = os.getpid()
    return [int(name) for name in os.listdir(PROC) if name.isdecimal() and int(name) != own]  # noqa: PTH208


def _stat(pid: int) -> tuple[str, int] | None:
    """A process's state and its group."""
    try:
        # The name in parentheses may itself hold blanks and parentheses.
        fields = (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
        return fields[0].decode(), int(fields[2])
    except (OSError, IndexError, ValueError):
        return None


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
