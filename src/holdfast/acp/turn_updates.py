"""`TurnUpdates`: makes the editor's updates of a turn's events, and of nothing else."""

from pathlib import Path

from acp import schema, update_agent_message_text, update_agent_thought_text

from holdfast.acp.tool_updates import SHOWN_CHARACTERS, TODO, ShownCall, call_id, parsed_arguments
from holdfast.core import events as ev
from holdfast.core.messages import storable

Update = (
    schema.UserMessageChunk
    | schema.AgentMessageChunk
    | schema.AgentThoughtChunk
    | schema.ToolCallStart
    | schema.ToolCallProgress
    | schema.AgentPlanUpdate
    | schema.AvailableCommandsUpdate
    | schema.CurrentModeUpdate
    | schema.ConfigOptionUpdate
    | schema.SessionInfoUpdate
    | schema.UsageUpdate
)


def note(text: str) -> schema.AgentMessageChunk:
    """A paragraph that is Holdfast's own and not the model's."""
    return update_agent_message_text(f"\n\n> {storable(text)}\n\n")


class TurnUpdates:
    """What an editor is told of one turn. Messages of users are not: the editor knows its own."""

    def __init__(self, folder: Path, terminals: dict[str, str] | None = None) -> None:
        """Paths of tools are relative to `folder`; `terminals` has the editor's own, by a call's id."""
        self._folder = folder
        self._terminals = {} if terminals is None else terminals
        self._calls: dict[str, ShownCall] = {}
        self._outputs: dict[str, str] = {}
        self._text = ""
        """What was streamed of the answer to the present request."""
        self._reasoning = ""
        self._request_over = False

    def call(self, turn_id: str, given: str) -> ShownCall:
        """A call that was shown; one without arguments for any other."""
        made = call_id(turn_id, given)
        return self._calls.get(made) or ShownCall(made, "", {}, self._folder)

    def of(self, event: ev.Event) -> list[Update]:
        """The updates for one event; most have one, some none."""
        match event:
            case ev.TextDelta() | ev.ReasoningDelta():
                return self._streamed(event)
            case ev.ToolStarted() | ev.ToolOutput() | ev.ToolFinished():
                return self._tool(event)
            case ev.StepFinished():
                self._request_over = True
                return [_usage(event)] if event.window > 0 else []
            case ev.SessionSnapshot():
                return self._after_gap(event.text, event.reasoning)
            case ev.TurnResumed():
                self._request_over = True  # the model is asked anew
                return []
            case ev.TurnCompleted():
                return self._after_gap(event.final_response, "")
            case ev.ModelRetrying():
                self._request_over = True
                return [note(f"The model is asked again: {event.problem}")]
            case _:
                return _noted(event)

    def missed(self, partial: str) -> list[Update]:
        """What was not shown yet of an answer that a crash cut off."""
        if self._request_over:
            self._text, self._request_over = "", False
        return self._after_gap(partial, "")

    def _streamed(self, event: ev.TextDelta | ev.ReasoningDelta) -> list[Update]:
        if not event.text:
            return []
        if self._request_over:
            self._text = self._reasoning = ""
            self._request_over = False
        if isinstance(event, ev.ReasoningDelta):
            self._reasoning += event.text
            return [update_agent_thought_text(storable(event.text))]
        self._text += event.text
        return [update_agent_message_text(storable(event.text))]

    def _after_gap(self, text: str, reasoning: str) -> list[Update]:
        """What was missed of a text: nothing that was shown is shown again."""
        missed_thought = _rest(reasoning, self._reasoning)
        missed = _rest(text, self._text)
        self._reasoning += missed_thought
        self._text += missed
        return [
            *([update_agent_thought_text(storable(missed_thought))] if missed_thought else []),
            *([update_agent_message_text(storable(missed))] if missed else []),
        ]

    def _tool(self, event: ev.ToolStarted | ev.ToolOutput | ev.ToolFinished) -> list[Update]:
        made = call_id(event.turn_id, event.call_id)
        if isinstance(event, ev.ToolStarted):
            call = ShownCall(made, event.name, parsed_arguments(event.arguments), self._folder)
            self._calls[made] = call
            return [] if event.name == TODO else [call.start()]
        known = self._calls.get(made)
        if isinstance(event, ev.ToolOutput):
            if known is None or known.name == TODO:
                return []
            if made in self._terminals:
                return [known.in_terminal(self._terminals[made])]
            printed = self._outputs.get(made, "") + event.text
            self._outputs[made] = printed[-2 * SHOWN_CHARACTERS :]
            return [known.output(printed)]
        return self._finished(event, known)

    def _finished(self, event: ev.ToolFinished, known: ShownCall | None) -> list[Update]:
        self._outputs.pop(call_id(event.turn_id, event.call_id), None)
        if known is None:
            # Its beginning was missed.
            known = ShownCall(call_id(event.turn_id, event.call_id), event.name, {}, self._folder)
            started: list[Update] = [] if event.name == TODO else [known.start()]
        else:
            started = []
        if known.name == TODO:
            plan = known.plan() if event.ok else None
            return [] if plan is None else [plan]
        terminal = self._terminals.pop(known.id, None)
        if terminal is not None:
            return [*started, known.in_terminal(terminal, "completed" if event.ok else "failed")]
        return [*started, known.finish(ok=event.ok, output=event.output)]


def _rest(whole: str, shown: str) -> str:
    """What is missing of a text at its end; nothing when another text was shown."""
    return whole[len(shown) :] if whole.startswith(shown) else ""


def _usage(event: ev.StepFinished) -> schema.UsageUpdate:
    return schema.UsageUpdate(
        session_update="usage_update", used=max(0, event.context), size=max(0, event.window)
    )


def _noted(event: ev.Event) -> list[Update]:
    match event:
        case ev.Notice():
            return [note(event.text)]
        case ev.SessionTrouble():
            return [note(f"{event.error} Your messages wait.")]
        case ev.CompactionStarted():
            return [update_agent_thought_text("The conversation is being summarised.\n")]
        case ev.SessionMoved() if event.elsewhere:
            return [note("Another process runs this conversation; it is followed here.")]
        case _:
            return []
