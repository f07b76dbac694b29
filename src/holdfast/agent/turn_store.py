"""`TurnStore`: the steps of one turn, stored and then folded into the transcript, in this order always.

A step that is being stored is stored to its end even when the turn is cancelled; the cancellation takes
effect right after it. So the record and the transcript never differ, and a turn that was completed in
the same moment as it was interrupted is completed. A store that can't be written just now is waited for
(`store_retry.py`).
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import ParamSpec, TypeVar

from holdfast.agent.contract import EventIds
from holdfast.agent.store_retry import StoreRetry
from holdfast.agent.transcript import Transcript
from holdfast.core.contract import Message
from holdfast.core.errors import HoldfastError, NotWaiting, OutcomeUnknown
from holdfast.process import DaemonPool, off_loop
from holdfast.process.cancellation import finish_despite_cancel
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import InboxMessage, Operation, TurnRecord
from holdfast.sessions.held_lease import HeldLease
from holdfast.sessions.turn_operations import (
    NO_ACCOUNT,
    TurnAccount,
    TurnCompletion,
    append_to_turn,
    complete_turn,
    complete_unless_steered,
    end_turn,
    hand_over_turn,
    join_turn,
    open_turn,
    resume_turn,
    save_partial,
    steers,
    take_next,
)

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
        lease: HeldLease | None = None,
        retry: StoreRetry | None = None,
    ) -> None:
        self._db = db
        self.retry = retry or StoreRetry(0)
        # Under a lease each step is refused once another took it.
        self._lease = lease
        self._pool = pool
        self._transcript = transcript
        self.turn_id = turn_id
        self.state = "unopened"
        self.session_id = ""
        self.started = 0
        self.stored = 0
        self.moved_on = False

    @property
    def ids(self) -> EventIds:
        """The ids that every event of this turn carries."""
        return {"session_id": self.session_id, "turn_id": self.turn_id}

    async def open(self, session_id: str, first: Message | int) -> Message:
        """Open the turn with a message, or with one that waits in the inbox; returns the message."""

        async def work() -> Message:
            if isinstance(first, int):
                turn, message = await self._run(take_next, session_id, self.turn_id, first, lease=self._lease)
            else:
                turn = await self._run(open_turn, session_id, self.turn_id, first, lease=self._lease)
                message = first
            self.adopt(turn)
            self._fold([message])
            return message

        return await finish_despite_cancel(work())

    @property
    def lease(self) -> HeldLease | None:
        """The lease under which the turn runs."""
        return self._lease

    def hold(self, lease: HeldLease) -> None:
        """Go on under this lease: the one before it was let go or lost."""
        self._lease = lease

    def adopt(self, turn: TurnRecord) -> None:
        """Take over what is on record of the turn, also of one that another process has begun."""
        # A rotation whose end was not heard of here has moved the turn all the same.
        self.moved_on = self.moved_on or self.session_id not in ("", turn.session_id)
        self.state = turn.state
        self.session_id = turn.session_id
        self.started = turn.started

    async def resume(self) -> None:
        """Record that this turn is resumed after a crash, and count how often it was."""
        await finish_despite_cancel(self._run(resume_turn, self.turn_id, lease=self._lease))

    async def hand_over(self) -> None:
        """Note on record that this turn is left open for another process."""
        await finish_despite_cancel(self._run(hand_over_turn, self.turn_id, lease=self._lease))

    def moved(self, session_id: str, messages: Sequence[Message]) -> None:
        """The conversation, and this turn with it, goes on in another session, as stored there."""
        self.session_id = session_id
        self._transcript.begin_anew(messages)
        self.moved_on = True

    async def keep(self, *messages: Message) -> None:
        """Store the next step."""

        async def work() -> None:
            await self._run(append_to_turn, self.turn_id, messages, lease=self._lease)
            self._fold(messages)

        await self.retry.until_stored(work)

    async def save_partial(self, text: str) -> None:
        """Keep what has come of an answer that still streams."""
        await finish_despite_cancel(self._run(save_partial, self.turn_id, text, lease=self._lease))

    @property
    def is_read_elsewhere(self) -> bool:
        """Whether readers in another process wait for the text of this turn."""
        return self._db.live_text.is_read_elsewhere(self.turn_id)

    async def wait_for_readers(self, seconds: float) -> None:
        """Wait so long, or until readers in another process ask for the text of this turn."""
        asked = asyncio.Event()
        notice = partial(asyncio.get_running_loop().call_soon_threadsafe, asked.set)
        with self._db.live_text.notice_readers(self.turn_id, notice), suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asked.wait()

    def send_live(self, start: int, text: str) -> None:
        """Send text of an answer that still streams to readers in other processes."""
        self._db.live_text.send(self.turn_id, self.stored, start, text)

    async def steers(self) -> list[InboxMessage]:
        """The messages that want to join the running turn at this step, oldest first."""
        return await self.retry.until_stored(lambda: off_loop(self._pool, self._steers))

    def _steers(self) -> list[InboxMessage]:
        return steers(self._db.inbox.waiting(self.session_id))

    async def join(self, steer: InboxMessage, said: Sequence[Message]) -> Message | None:
        """Let a waiting message join, as it is now, right after what the turn has `said`.

        None when it was taken back meanwhile; then nothing is stored.
        """

        async def work() -> Message | None:
            try:
                message = await self._run(join_turn, self.turn_id, steer.id, said, lease=self._lease)
            except NotWaiting:
                return None
            self._fold([*said, message])
            return message

        return await self.retry.until_stored(work)

    async def complete(
        self,
        message: Message,
        providers: Sequence[str],
        *,
        ephemeral: bool,
        account: TurnAccount,
        unless_steered: bool = False,
    ) -> list[InboxMessage]:
        """End the turn with its final message; from here on it is owed to each provider.

        With `unless_steered` the turn is not ended when messages want to join it: these are returned.
        """
        ending = TurnCompletion(message, providers, ephemeral, account)

        async def work() -> list[InboxMessage]:
            done: TurnRecord | list[InboxMessage]
            try:
                if unless_steered:
                    done = await self._run(complete_unless_steered, self.turn_id, ending, lease=self._lease)
                else:
                    done = await self._run(complete_turn, self.turn_id, ending, lease=self._lease)
            except OutcomeUnknown as unknown:
                done = await self._completed_after_all(unknown)
            if isinstance(done, list):
                return done
            self.adopt(done)
            self._fold([message])
            return []

        return await self.retry.until_stored(work)

    async def end(
        self,
        state: str,
        reason: str,
        messages: Sequence[Message],
        *,
        account: TurnAccount = NO_ACCOUNT,
    ) -> None:
        """End the turn as interrupted or failed, keeping its partial work."""

        async def work() -> None:
            ended = await self._run(
                end_turn, self.turn_id, state, reason, messages, account=account, lease=self._lease
            )
            self.adopt(ended)
            self._fold(messages)

        await finish_despite_cancel(work())

    async def _completed_after_all(self, unknown: OutcomeUnknown) -> TurnRecord:
        """The turn, if its completion was stored before the connection broke."""
        try:
            turn = await off_loop(self._pool, self._db.turns.get, self.turn_id)
        except HoldfastError:
            raise unknown from None
        if turn is None or turn.state != "completed":
            raise unknown
        return turn

    async def _run(self, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._db.run(self._pool, operation, *args, **kwargs)

    def _fold(self, messages: Sequence[Message]) -> None:
        self.stored += len(messages)
        for message in messages:
            self._transcript.add(message)
