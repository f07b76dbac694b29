"""What a crash left of a turn: how it is described to a person, and how its record is closed.

A call without a result is answered by the honest word that none is on record, so the model looks before it
repeats anything. Only a call that waited for a person, and so had not begun, is run: it asks again.
"""

from collections.abc import Collection
from dataclasses import dataclass

from holdfast.agent.answer import Answer
from holdfast.agent.batch import tool_message
from holdfast.agent.transcript import NO_RESULT, Transcript
from holdfast.agent.turn_store import TurnStore
from holdfast.core.contract import Message, ToolCall
from holdfast.core.messages import text_of
from holdfast.models.contract import TextPiece
from holdfast.process import DaemonPool, off_loop
from holdfast.sessions.contract import TurnRecord
from holdfast.sessions.journal import Journal

CRASHED = "cut off by a crash"


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A turn that was running when its process died: to be resumed, retried or dropped."""

    turn_id: str
    session_id: str
    message: Message
    """What the person had said."""
    finished_calls: int
    open_calls: tuple[str, ...]
    """Tools that were called and left no result; they may have taken effect."""
    partial: str
    """What had come of the answer that was being streamed."""
    resume_count: int = 0
    """How often the turn was resumed before, after its process had died."""
    call_ids: tuple[str, ...] = ()
    """The ids of the open calls, in the same order."""
    changing_calls: tuple[tuple[str, str], ...] = ()
    """Id and tool name of each open call that may change something; only an agent with these tools knows."""

    @property
    def said(self) -> str:
        return text_of(self.message)


def describe(turns: Journal, turn: TurnRecord) -> Unfinished:
    """The turn as it is on record. Reads the store, so async code calls it off the loop."""
    messages = turns.messages(turn.id)
    transcript = Transcript(messages)
    results = sum(message["role"] == "tool" for message in messages)
    open_calls = transcript.unanswered
    return Unfinished(
        turn_id=turn.id,
        session_id=turn.session_id,
        message=messages[0],
        finished_calls=results,
        open_calls=tuple(call["function"]["name"] for call in open_calls),
        call_ids=tuple(call["id"] for call in open_calls),
        partial=turns.partial(turn.id),
        resume_count=turns.resume_count(turn.id),
    )


def results(transcript: Transcript, said: str = NO_RESULT) -> list[Message]:
    """An honest result for each call that has none."""
    return [tool_message(call, said, ok=False) for call in transcript.unanswered]


class CutOffTurn:
    """The open record of a turn whose process died, which an agent has taken over."""

    def __init__(self, store: TurnStore, transcript: Transcript, turns: Journal, pool: DaemonPool) -> None:
        """`store` has adopted the turn, and `transcript` ends with what is on record of it."""
        self._store = store
        self._transcript = transcript
        self._turns = turns
        self._pool = pool

    async def go_on(self, undecided: Collection[str]) -> tuple[Message, list[ToolCall]]:
        """Store what the model is told of the gap; returns the turn's message and the calls that run now.

        They are those of the `undecided` calls that had not begun; none once the model has said more. A
        partial answer stays on record, and is asked for anew.
        """
        streamed = await off_loop(self._pool, self._turns.partial, self._store.turn_id)
        calls = [] if streamed else [call for call in self._transcript.unanswered if call["id"] in undecided]
        ids = {call["id"] for call in calls}
        told = [each for each in results(self._transcript) if each.get("tool_call_id") not in ids]
        await self._store.keep(*told, *([_answer(streamed).superseded(CRASHED)] if streamed else []))
        messages = await off_loop(self._pool, self._turns.messages, self._store.turn_id)
        return messages[0], calls

    async def close(self, why: str) -> None:
        """End its record, so that the next turn can follow; it says why the turn ends here."""
        streamed = await off_loop(self._pool, self._turns.partial, self._store.turn_id)
        end = [*results(self._transcript), _answer(streamed).cut_off(why)]
        await self._store.end("interrupted", why, end)


def _answer(partial: str) -> Answer:
    answer = Answer()
    answer.add(TextPiece(partial))
    return answer
