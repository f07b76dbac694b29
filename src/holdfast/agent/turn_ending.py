"""`TurnEnding`: how one turn ends: completed, interrupted, failed, or lost to another process.

Whatever stops a turn, what it produced is stored, its record is closed so that the next turn can follow, and
one event says how it ended. When the store fails at that moment, `close_record` closes the record later.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from holdfast.agent.model_calls import ModelCalls
from holdfast.agent.recovery import results
from holdfast.agent.turn_context import TurnContext
from holdfast.agent.turn_store import TurnStore
from holdfast.agent.turn_timeline import TurnTimeline
from holdfast.core.contract import Message
from holdfast.core.error_text import error_words
from holdfast.core.errors import HoldfastError, LeaseLost, Retryable
from holdfast.core.events import INTERRUPTED, Emit, SessionRotated, TurnCompleted, TurnFailed, TurnInterrupted
from holdfast.core.messages import storable, text_of
from holdfast.sessions.contract import InboxMessage
from holdfast.sessions.turn_operations import TurnAccount

logger = logging.getLogger(__name__)

INTERRUPTED_CALL = (
    "Interrupted before it finished. It may have taken effect in part; look before repeating it."
)


class TurnEnding:
    """The end of one turn. `failure` is why it failed; `final_response` is its answer, if it has one."""

    def __init__(
        self,
        context: TurnContext,
        store: TurnStore,
        model: ModelCalls,
        timeline: TurnTimeline,
        emit: Emit,
    ) -> None:
        self._context = context
        self._store = store
        self._model = model
        self._timeline = timeline
        self._emit = emit
        self._final: Message | None = None  # the whole answer, until the store has taken it
        self._ended: tuple[str, str] | None = None  # the state and the reason
        self.interrupt_reason = INTERRUPTED
        self.is_suspended = False
        """Whether the turn is left open on record, for another process to go on with."""
        self.final_response = ""
        self.failure: Exception | None = None

    async def complete(self, final: Message, *, unless_steered: bool) -> list[InboxMessage]:
        """End the turn with this message; with `unless_steered`, only if none wants to join it.

        Returns the messages that want to join; when there are any, the turn has not ended.
        """
        memory = self._context.memory
        self._final, self.final_response = final, text_of(final)
        account = self._account(completed=True)
        joining = await self._store.complete(
            final,
            memory.providers,
            ephemeral=memory.ephemeral,
            account=account,
            unless_steered=unless_steered,
        )
        self._final = None
        if not joining:
            self._context.meter.stored(tuple(account.usage))
        return joining

    def _account(self, *, completed: bool) -> TurnAccount:
        return TurnAccount(
            self._timeline.to_json(completed=completed),
            self._context.meter.entries,
            self._context.caller_turn,
        )

    def emit_completed(self) -> None:
        self._context.memory.completed(self._store.session_id)
        self._emit(TurnCompleted(**self._store.ids, final_response=self.final_response))

    @asynccontextmanager
    async def ensured(self) -> AsyncGenerator[None, None]:
        """Bring the turn that runs in the body to an end. Raises what failed before it was opened."""
        try:
            yield
        except asyncio.CancelledError:
            if self._store.state == "completed":
                # The interrupt came too late for this turn; its message becomes the next one.
                self.emit_completed()
            elif self._store.state == "running":
                if self.is_suspended and self._final is None:
                    await self._leave_open()
                else:
                    await self._end("interrupted", self.interrupt_reason)
            else:
                raise
        except LeaseLost as lost:
            # Another process runs this session now, and nothing more may be written here.
            self.failure = lost
            if self._store.state == "unopened":
                raise
            self._ended = "failed", error_words(lost)
            self._emit_end(*self._ended)
        except Exception as failure:
            self.failure = failure
            if self._store.state != "running":
                raise
            if not isinstance(failure, HoldfastError):
                self._final = None
                logger.exception("turn.failed", extra={"turn": self._store.turn_id})
            await self._end("failed", error_words(failure))

    async def _leave_open(self) -> None:
        """Another process goes on with the turn. Where that can't be noted, it is as after a crash."""
        with suppress(HoldfastError, asyncio.CancelledError):
            await self._store.hand_over()

    async def close_record(self, *, untouched: bool) -> None:
        """Close the record of a turn that has ended, when the store failed then or the lease was lost.

        `untouched` says that no other process has written to the session. Then a whole answer that the
        store had not taken is stored, and the turn is completed. Otherwise a turn that was lost to another
        process is left as that process has it.
        """
        if not untouched:
            self._final = None
        if self._final is None and isinstance(self.failure, LeaseLost):
            return
        if self._ended is not None and self._store.state == "running":
            await self._store_end(*self._ended)

    async def _end(self, state: str, why: str) -> None:
        """Close the record, then emit the end."""
        self._ended = state, storable(why)
        before = self._store.ids
        await self._store_end(*self._ended)
        child_id = self._store.session_id
        if child_id != before["session_id"]:
            # A rotation that was cut off at the moment of its commit is noticed only here.
            self._emit(SessionRotated(**before, child_id=child_id))
        self._emit_end(*self._ended)

    async def _store_end(self, state: str, why: str) -> None:
        # An interrupt that comes now is too late for this turn.
        with suppress(asyncio.CancelledError):
            if not await self._completed_late():
                self.final_response = ""  # what the last step said is on record, and is no answer
                account = self._account(completed=False)
                await self._store.end(state, why, self._missing(why), account=account)
                self._context.meter.stored(tuple(account.usage))

    async def _completed_late(self) -> bool:
        """Whether the turn ends with its whole answer after all, which the store had not taken before."""
        if self._final is None:
            return False
        try:
            await self.complete(self._final, unless_steered=False)
        except (Retryable, LeaseLost):
            raise
        except HoldfastError:
            self._final = None  # the store refuses the answer itself
            return False
        self.failure = None
        return True

    def _missing(self, why: str) -> list[Message]:
        """What a turn that was cut off still needs: results for its open calls, and a last message."""
        open_calls = results(self._context.transcript, INTERRUPTED_CALL)
        return [*open_calls, self._model.answer.cut_off(why)]

    def _emit_end(self, state: str, why: str) -> None:
        if self._store.state == "completed":
            self.emit_completed()
        elif state == "interrupted":
            self._emit(TurnInterrupted(**self._store.ids, reason=why))
        else:
            failure = self.failure or HoldfastError(why)
            self._emit(
                TurnFailed(
                    **self._store.ids,
                    error=error_words(failure),
                    failure=type(failure).__name__,
                    retry_after=getattr(failure, "retry_after", None) or 0.0,
                )
            )
