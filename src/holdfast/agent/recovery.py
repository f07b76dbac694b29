"""What a crash left of a turn: how it is described to a person, and how its record is closed.

A call without a result is answered by the honest word that none is on record, so the model looks before it
repeats anything. Only a call that waited for a person, and so had not begun, is run: it asks again.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from holdfast.agent.answer import Answer
from holdfast.agent.batch import tool_message
from holdfast.agent.transcript import NO_RESULT, Transcript
from holdfast.core.contract import Message, ToolCall
from holdfast.core.messages import text_of
from holdfast.models.contract import TextPiece
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
    """How often the turn was gone on with before, after its process had died."""
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


def calls_to_run(transcript: Transcript, partial: str, undecided: Collection[str]) -> list[ToolCall]:
    """Of the calls without a result those that had not begun; none once the model has said more."""
    return [] if partial else [call for call in transcript.unanswered if call["id"] in undecided]


def messages_to_resume(
    transcript: Transcript, partial: str, running: Sequence[ToolCall] = ()
) -> list[Message]:
    """What is stored before the turn goes on: a partial answer is on record, and is asked for anew.

    The calls that run now get their own results.
    """
    ids = {call["id"] for call in running}
    told = [each for each in results(transcript) if each.get("tool_call_id") not in ids]
    return [*told, *([_answer(partial).superseded(CRASHED)] if partial else [])]


def messages_to_close(transcript: Transcript, partial: str, why: str) -> list[Message]:
    """What ends the record of the turn, so that the next one can follow; it says why the turn ends here."""
    return [*results(transcript), _answer(partial).cut_off(why)]


def _answer(partial: str) -> Answer:
    answer = Answer()
    answer.add(TextPiece(partial))
    return answer
