"""What a crash left of a turn: how it is described to a person, and how its record is closed.

Nothing is run again here. A call without a result is answered by the honest word that none is on record,
so the model looks before it repeats anything, and what needs approval is asked anew.
"""

from dataclasses import dataclass

from holdfast.agent.answer import Answer
from holdfast.agent.batch import tool_message
from holdfast.agent.transcript import NO_RESULT, Transcript, text_of
from holdfast.core.contract import Message
from holdfast.models.contract import TextPiece
from holdfast.sessions.contract import Turn
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

    @property
    def said(self) -> str:
        return text_of(self.message)


def describe(turns: Journal, turn: Turn) -> Unfinished:
    """The turn as it is on record. Reads the store, so async code calls it off the loop."""
    messages = turns.messages(turn.id)
    transcript = Transcript(messages)
    results = sum(message["role"] == "tool" for message in messages)
    return Unfinished(
        turn_id=turn.id,
        session_id=turn.session_id,
        message=messages[0],
        finished_calls=results,
        open_calls=tuple(call["function"]["name"] for call in transcript.unanswered),
        partial=turns.partial(turn.id),
    )


def results(transcript: Transcript) -> list[Message]:
    """An honest result for each call that has none."""
    return [tool_message(call, NO_RESULT, ok=False) for call in transcript.unanswered]


def going_on(transcript: Transcript, partial: str) -> list[Message]:
    """What is stored before the turn goes on: a partial answer is on record, and is asked for anew."""
    return [*results(transcript), *([_answer(partial).void(CRASHED)] if partial else [])]


def closing(transcript: Transcript, partial: str) -> list[Message]:
    """What ends the record of the turn, so that the next one can follow."""
    return [*results(transcript), _answer(partial).cut_off(CRASHED)]


def _answer(partial: str) -> Answer:
    answer = Answer()
    answer.add(TextPiece(partial))
    return answer
