"""`SessionCommands`: what was asked of a conversation between its turns, such as a compaction.

A command runs under the conversation's lease, or is refused with a reason. Each caller gets an answer; nobody
waits for something that can't happen any more.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from holdfast.agent import SessionAgent
from holdfast.core.errors import CommandInterrupted, TurnAlreadyRunning

logger = logging.getLogger(__name__)

SessionCommand = Callable[[SessionAgent], Awaitable[None]]
"""Something to do with the agent while no turn runs: resume a turn, compact."""


@dataclass(frozen=True, slots=True)
class _Pending:
    command: SessionCommand
    since: float
    answer: "asyncio.Future[None]"
    only_idle: bool


class SessionCommands:
    """The commands of one conversation, oldest first."""

    def __init__(self) -> None:
        self._pending: deque[_Pending] = deque()
        self._running: asyncio.Task[None] | None = None

    def __bool__(self) -> bool:
        return bool(self._pending)

    def add(self, command: SessionCommand, *, only_idle: bool = False) -> "asyncio.Future[None]":
        """Queue a command; the future tells when it is done, or why it isn't.

        With `only_idle` it is refused when a turn begins before it, instead of waiting for that turn's end.
        """
        loop = asyncio.get_running_loop()
        pending = _Pending(command, loop.time(), loop.create_future(), only_idle)
        self._pending.append(pending)
        return pending.answer

    async def run_next(self, agent: SessionAgent) -> None:
        """Run the oldest command, and tell its caller the outcome."""
        pending = self._pending.popleft()
        if pending.answer.done():
            return  # the caller has gone
        task = self._running = asyncio.create_task(_run(pending.command, agent), name="session command")
        try:
            await asyncio.wait([task])
        finally:
            self._running = None
            task.cancel()
            _answer(pending.answer, task)

    def interrupt(self) -> bool:
        """Stop the command that runs; False when there is none."""
        return self._running is not None and self._running.cancel()

    def turn_began(self, session_id: str, turn_id: str) -> None:
        """Refuse the commands that are meant for an idle session."""
        for pending in [each for each in self._pending if each.only_idle]:
            self._pending.remove(pending)
            if not pending.answer.done():
                pending.answer.set_exception(TurnAlreadyRunning(session_id, turn_id))

    def refuse(self, why: BaseException, *, older_than: float = 0.0) -> None:
        """Tell the callers who have waited so many seconds that their command will not run."""
        now = asyncio.get_running_loop().time()
        while self._pending and now - self._pending[0].since >= older_than:
            pending = self._pending.popleft()
            if not pending.answer.done():
                pending.answer.set_exception(why)


async def _run(command: SessionCommand, agent: SessionAgent) -> None:
    await command(agent)


def _answer(answer: "asyncio.Future[None]", task: "asyncio.Task[None]") -> None:
    failure = CommandInterrupted() if task.cancelled() or not task.done() else task.exception()
    if answer.done():
        if failure is not None:
            logger.warning("host.command_failed", exc_info=failure)
    elif failure is None:
        answer.set_result(None)
    else:
        answer.set_exception(failure)
