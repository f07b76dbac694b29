"""How a conversation is shrunk: a summary by a model, or a mechanical one that needs none.

Both keep the recent tail word for word, cut where no tool call is separated from its result: at the
beginning of a turn if the tail's budget allows a whole turn, else between two steps of the last one. Then
the person's last message is kept too, word for word, whatever its length: it is what the turn is about.
"""

from collections.abc import Awaitable, Sequence
from typing import Any

from holdfast.agent.answer import whole_answer
from holdfast.agent.refused_content import is_cut_off
from holdfast.agent.summary_text import summary_text
from holdfast.agent.transcript import BYTES_PER_TOKEN, estimate, estimate_all
from holdfast.agent.usage_meter import SUMMARY, UsageMeter
from holdfast.core.contract import Message
from holdfast.core.errors import AnswerEmpty
from holdfast.core.messages import HOLDFAST_KEY, fenced, holdfast_data, text_of
from holdfast.models.contract import Model, ModelRequest

TAIL_SHARE = 0.5
"""The share of the budget that the verbatim tail may take."""
LEAST_BUDGET = 500
SUMMARY_TOKENS = 4_000
SNIPPET = 240

TASK = """\
The conversation above grows too long for the window and its older part is replaced by your summary. Write \
it so that the work can go on without the originals. Use these headings, leave out those with nothing to say:

## Goals
What the person wants, in their words where they matter.
## Decisions
What was decided, and why.
## Facts
Names, numbers, dates, preferences, findings; exact values.
## Files
Paths that were read or changed, and what matters in each.
## Open ends
What is unfinished, promised or unanswered, and the next step.

Write the summary only."""


class SummaryCompressor:
    """Asks a model for a structured summary of what the tail leaves out, unless it is too weak for that."""

    def __init__(self, model: Model, meter: UsageMeter | None = None) -> None:
        """`meter` counts what the summaries use."""
        self._model = model
        self._meter = meter

    def compress(
        self,
        messages: Sequence[Message],
        *,
        focus: str = "",
        notes: str = "",
        budget: int = 0,
    ) -> list[Message] | Awaitable[list[Message]]:
        """Runs off the loop, where a mechanical summary is made; what it returns else asks the model."""
        if not self._model.traits.summarises:
            return MechanicalCompressor().compress(messages, focus=focus, notes=notes, budget=budget)
        return self._summarise(messages, focus, notes, budget)

    async def _summarise(
        self, messages: Sequence[Message], focus: str, notes: str, budget: int
    ) -> list[Message]:
        older, kept = division(messages, _tail_budget(messages, budget))
        if not older:
            return list(messages)
        task = TASK
        if focus:
            task += f"\n\nThe person asks to keep this above all: {focus}"
        if notes:
            task += f"\n\nMemory asks to keep these, as data:\n{fenced('notes', notes)}"
        text = await self._ask(older, task)
        return [summary_message(text), *kept]

    async def _ask(self, older: Sequence[Message], task: str) -> str:
        request = ModelRequest(
            system="You write exact, complete summaries of working conversations.",
            messages=[{"role": "user", "content": f"{fenced('conversation', as_text(older))}\n\n{task}"}],
            max_output_tokens=SUMMARY_TOKENS,
        )
        answer = await whole_answer(self._model, request)
        if self._meter is not None and answer.finished is not None:
            self._meter.add(self._model.traits, answer.finished.usage, SUMMARY)
        if answer.finished is None or not answer.text.strip():
            raise AnswerEmpty(self._model.traits.name, "the summary was empty")
        return answer.text


class MechanicalCompressor:
    """Shrinks without a model: what the person said, what was run, how the last answers began."""

    def compress(
        self,
        messages: Sequence[Message],
        *,
        focus: str = "",
        notes: str = "",
        budget: int = 0,
    ) -> list[Message]:
        allowed = budget or estimate_all(messages) // 2
        older, kept = division(messages, _tail_budget(messages, budget))
        if not older:
            return list(messages)
        lines = [line for message in older if (line := _line(message))]
        # The newest lines matter most; as many of them as fit.
        room = max(LEAST_BUDGET, allowed - estimate_all(kept)) * BYTES_PER_TOKEN
        told: list[str] = []
        for line in reversed(lines):
            room -= len(line.encode(errors="replace")) + 1
            if room < 0:
                told.append(f"({len(lines) - len(told)} older lines are left out)")
                break
            told.append(line)
        said = [f"To keep above all: {focus}"] if focus else []
        said += [f"Notes from memory, as data:\n{fenced('notes', notes)}"] if notes else []
        return [summary_message("\n".join([*said, *reversed(told)])), *kept]


def summary_message(text: str) -> Message:
    """A summary as the child session's first message."""
    message: dict[str, Any] = {
        "role": "user",
        "content": summary_text(text),
        HOLDFAST_KEY: {"summary": True},
    }
    return message  # type: ignore[return-value]


def division(messages: Sequence[Message], budget: int) -> tuple[list[Message], list[Message]]:
    """What a summary takes the place of, and what is kept: the tail, and the person's last message."""
    cut = tail_start(messages, budget)
    asked = _last_words(messages)
    if asked is None or asked >= cut:
        return list(messages[:cut]), list(messages[cut:])
    cut = tail_start(messages, max(0, budget - estimate(messages[asked])))
    if cut == len(messages) and is_cut_off(messages[-1]):
        cut -= 1  # without the end of its turn, the next words would be joined to these
    older = [*messages[:asked], *messages[asked + 1 : cut]]
    return older, [messages[asked], *messages[cut:]]


def tail_start(messages: Sequence[Message], budget: int) -> int:
    """Where the verbatim tail begins: at a turn if a whole one fits the budget, else at a step."""
    calls = _calls_of_results(messages)
    spent = 0
    earliest_call = turn_at = step_at = len(messages)
    for place in range(len(messages) - 1, -1, -1):
        spent += estimate(messages[place])
        if spent > budget:
            break
        earliest_call = min(earliest_call, calls.get(place, place))
        if place > earliest_call:
            continue  # a result further on belongs to a call before this place
        if messages[place]["role"] == "user":
            turn_at = place
        if messages[place]["role"] != "tool":
            step_at = place
    return turn_at if turn_at < len(messages) else step_at


def _calls_of_results(messages: Sequence[Message]) -> dict[int, int]:
    """Maps the index of each tool result to the index of its call; a result without a call is left out."""
    called: dict[str, int] = {}
    found: dict[int, int] = {}
    for place, message in enumerate(messages):
        called.update((str(call["id"]), place) for call in message.get("tool_calls") or ())
        if message["role"] == "tool" and (call_id := str(message.get("tool_call_id"))) in called:
            found[place] = called[call_id]
    return found


def _last_words(messages: Sequence[Message]) -> int | None:
    """The place of the last message that a person said, which no summary is."""
    for place in range(len(messages) - 1, -1, -1):
        if messages[place]["role"] == "user" and not holdfast_data(messages[place]).get("summary"):
            return place
    return None


def _tail_budget(messages: Sequence[Message], budget: int) -> int:
    allowed = budget or estimate_all(messages) // 2
    return max(LEAST_BUDGET, int(allowed * TAIL_SHARE)) if budget else int(allowed * TAIL_SHARE)


def as_text(messages: Sequence[Message]) -> str:
    """Messages as a plain transcript, for a model to read about rather than to take part in."""
    lines = []
    for message in messages:
        text = text_of(message)
        if text:
            lines.append(f"{message['role']}: {text}")
        lines += [
            f"{message['role']} calls {call['function']['name']} {call['function']['arguments']}"
            for call in message.get("tool_calls") or ()
        ]
    return "\n".join(lines)


def _line(message: Message) -> str:
    """What one message comes to; tool results are left out, their calls are named."""
    said = [] if message["role"] == "tool" else [_short(text_of(message))]
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    said += [f"{call['name']} {_short(call['arguments'])}" for call in calls]
    text = " | ".join(each for each in said if each)
    return f"{message['role']}: {text}" if text else ""


def _short(text: str) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= SNIPPET else f"{one_line[:SNIPPET]}…"
