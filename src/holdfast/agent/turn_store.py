"""`TurnStore`: the steps of one turn, stored and then folded into the transcript, in this order always.

A step that is being stored is stored to its end even when the turn is cancelled; the cancellation takes
effect right after it. So the record and the transcript never differ, and a turn that was completed in
the same moment as it was interrupted is completed.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from itertools import takewhile
from typing import Any, ParamSpec, TypeVar

from holdfast.agent.transcript import Transcript
from holdfast.core.contract import Message
from holdfast.core.errors import HoldfastError, NotWaiting, OutcomeUnknown
from holdfast.process import DaemonPool, off_loop
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import InboxMessage, Lease, Turn

T = TypeVar("T")
P = ParamSpec("P")


class TurnStore:
    """One turn on record. `state` is what the store last acknowledged; `stored` counts its messages."""

    def __init__(
        self,
        db: SessionDB,
        pool: DaemonPool,
        transcript: Transcript,
        turn_id: str,
        lease: Lease | None = None,
    ) -> None:
        self._db = db
        # Under a lease each step is refused once it is lost.
        self._journal = db.turns if lease is None else db.turns.under(lease)
        self._pool = pool
        self._transcript = transcript
        self.turn_id = turn_id
        self.state = "unopened"
        self.session_id = ""
        self.started = 0
        self.stored = 0
        self.moved_on = False

    async def open(self, session_id: str, first: Message | int) -> Message:
        """Open the turn with a message, or with one that waits in the inbox; returns the message."""

        async def work() -> Message:
            if isinstance(first, int):
                # Noted in any case: a turn that is open on record is open here, whatever fails next.
                turn, said = await self._visit(self._take, session_id, first)
                self._note(turn)
                message = said or (await self._call(self._journal.messages, self.turn_id))[0]
            else:
                self._note(await self._visit(self._journal.open, session_id, first, turn_id=self.turn_id))
                message = first
            self._fold([message])
            return message

        return await settled(work())

    def _take(self, session_id: str, inbox_id: int) -> tuple[Turn, Message | None]:
        """Open the turn with a waiting message, as its last edit left it; None when it can't be read back."""
        turn = self._journal.open(session_id, take=inbox_id, turn_id=self.turn_id)
        try:
            return turn, self._journal.messages(self.turn_id)[0]
        except HoldfastError:
            return turn, None

    def hold(self, lease: Lease) -> None:
        """Go on under this lease: the one before it was let go or lost."""
        self._journal = self._db.turns.under(lease)

    def adopt(self, turn: Turn) -> None:
        """Go on with a turn that is open already, after a crash."""
        self._note(turn)

    def moved(self, session_id: str, messages: Sequence[Message]) -> None:
        """The conversation, and this turn with it, goes on in another session, as stored there."""
        self.session_id = session_id
        self._transcript.begin_anew(messages)
        self.moved_on = True

    async def keep(self, *messages: Message) -> None:
        """Store the next step."""

        async def work() -> None:
            await self._visit(self._journal.append, self.turn_id, messages)
            self._fold(messages)

        await settled(work())

    async def save_partial(self, text: str) -> None:
        """Keep what has come of an answer that still streams."""
        await settled(self._visit(self._journal.save_partial, self.turn_id, text))

    async def steers(self) -> list[InboxMessage]:
        """The messages that want to join the running turn at this step, oldest first."""
        return await self._call(self._steers)

    def _steers(self) -> list[InboxMessage]:
        waiting = self._db.inbox.waiting(self.session_id)
        # What came earlier is not overtaken.
        return list(takewhile(lambda each: each.mode == "steer", waiting))

    async def join(self, steer: InboxMessage) -> Message | None:
        """Let a waiting message join, as it is now; None when it was taken back meanwhile."""

        async def work() -> Message | None:
            try:
                message = await self._visit(self._journal.join, self.turn_id, steer.id)
            except NotWaiting:
                return None
            self._fold([message])
            return message

        return await settled(work())

    async def complete(
        self,
        message: Message,
        providers: Sequence[str],
        *,
        ephemeral: bool,
        account: str,
        unless_steered: bool = False,
    ) -> list[InboxMessage]:
        """End the turn with its final message; from here on it is owed to each provider.

        With `unless_steered` the messages that want to join it are looked for first: when there are any they
        are returned, and the turn is not ended.
        """

        def attempt() -> Turn | list[InboxMessage]:
            if unless_steered and (steers := self._steers()):
                return steers
            return self._journal.complete(
                self.turn_id, message, providers=providers, ephemeral=ephemeral, account=account
            )

        async def work() -> list[InboxMessage]:
            try:
                done = await self._visit(attempt)
            except OutcomeUnknown as unknown:
                done = await self._completed_after_all(unknown)
            if isinstance(done, list):
                return done
            self._note(done)
            self._fold([message])
            return []

        return await settled(work())

    async def end(self, state: str, reason: str, messages: Sequence[Message], *, account: str = "") -> None:
        """End the turn as interrupted or failed, keeping its partial work."""
        ending = self._journal.interrupt if state == "interrupted" else self._journal.fail

        async def work() -> None:
            self._note(await self._visit(ending, self.turn_id, reason, messages, account=account or None))
            self._fold(messages)

        await settled(work())

    async def _completed_after_all(self, unknown: OutcomeUnknown) -> Turn:
        """The turn, if its completion was stored before the connection broke."""
        try:
            turn = await self._call(self._journal.get, self.turn_id)
        except HoldfastError:
            raise unknown from None
        if turn is None or turn.state != "completed":
            raise unknown
        return turn

    async def _call(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await off_loop(self._pool, fn, *args, **kwargs)

    async def _visit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._db.visit(self._pool, partial(fn, *args, **kwargs))

    def _note(self, turn: Turn) -> None:
        # A rotation whose end was not heard of here has moved the turn all the same.
        self.moved_on = self.moved_on or self.session_id not in ("", turn.session_id)
        self.state = turn.state
        self.session_id = turn.session_id
        self.started = turn.started

    def _fold(self, messages: Sequence[Message]) -> None:
        self.stored += len(messages)
        for message in messages:
            self._transcript.add(message)


async def settled(work: Coroutine[Any, Any, T]) -> T:
    """Await `work` to its end even when cancelled meanwhile; the cancellation is raised after it.

    When `work` fails, its failure is raised, cancelled or not.
    """
    task = _Unstoppable(work, loop=asyncio.get_running_loop())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        task.result()
        raise


class _Unstoppable(asyncio.Task[T]):
    """A loop that closes cancels every task there is; it waits for this one instead."""

    def cancel(self, msg: Any | None = None) -> bool:  # noqa: ANN401, ARG002
        return False


def is_cancelled() -> bool:
    """Whether somebody cancelled the task that asks; else a CancelledError is the fault of who raised it."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
