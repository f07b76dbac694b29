"""`TerminalView`: turns a conversation's events into lines and state for the terminal.

Finished lines go to the screen; the open line, running tools, waiting messages and the open ask are state
that the prompt shows. Read `screen.py` first.
"""

from collections import deque
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from holdfast.cli.terminal.diff_text import coloured
from holdfast.cli.terminal.folds import OPEN_KEY, Folds
from holdfast.cli.terminal.open_line import OpenLine
from holdfast.cli.terminal.screen import Screen
from holdfast.cli.terminal.tool_cards import RunningTool, ToolCards, running_tool
from holdfast.core import events as ev
from holdfast.core.clean_text import CleanStream, clean, one_line
from holdfast.core.contract import Clock

YOU = "> "
MOST_OUTPUTS = 50
MOST_REASONING = 400_000
"""Characters of one stretch of reasoning that are kept."""
ALWAYS_MEANS = "  always: exactly this for the rest of this conversation; always PATTERN: all that matches"


class TerminalView:
    """The state of one conversation on the terminal."""

    def __init__(
        self, screen: Screen, clock: Clock, folds: Folds | None = None, workspace: Path | None = None
    ) -> None:
        """`workspace` is the folder of relative paths in tool calls."""
        self._screen = screen
        self._clock = clock
        self._clean = CleanStream()
        self.folds = folds or Folds()
        """What is shown in part and can be opened."""
        self._cards = ToolCards(self.folds)
        self._workspace = workspace or Path()
        self.reasoning = ""
        """What the model thinks at the moment."""
        self.line = OpenLine(screen)
        self.began: float | None = None
        """When the running turn began; None while idle."""
        self.doing = ""
        self.tools: dict[str, RunningTool] = {}
        self.waiting: dict[int, tuple[str, str]] = {}
        """Messages that no turn has taken yet: mode and text, by their number in the inbox."""
        self.ask: ev.ApprovalAsked | ev.QuestionAsked | None = None
        self._asks: dict[str, ev.ApprovalAsked | ev.QuestionAsked] = {}
        self.context = 0
        self.window = 0
        self.elsewhere = False
        self.turns = 0
        """Turns that have ended since this view began."""
        self._outputs: deque[str] = deque(maxlen=MOST_OUTPUTS)

    @property
    def is_busy(self) -> bool:
        return self.began is not None

    def elapsed(self) -> int:
        return 0 if self.began is None else int(self._clock.monotonic() - self.began)

    def show(self, event: ev.Event, diff: Sequence[str] = ()) -> None:
        """Show one event; `diff` is what a call that has ended changed in a file, when that is known."""
        if not isinstance(event, ev.ReasoningDelta | ev.ToolOutput):
            self._fold_reasoning()
        match event:
            case ev.TextDelta():
                self.doing = "answering"
                self.line.feed(self._clean.feed(event.text))
            case ev.ReasoningDelta():
                self.doing = "thinking"
                self.reasoning = (self.reasoning + event.text)[-MOST_REASONING:]
            case ev.ToolStarted() | ev.ToolOutput() | ev.ToolFinished():
                self._show_tool(event, diff)
            case ev.ApprovalAsked() | ev.QuestionAsked() | ev.AskClosed():
                self._show_ask(event)
            case ev.TurnStarted() | ev.MessageJoined():
                self._show_message(event)
            case ev.TurnCompleted() | ev.TurnInterrupted() | ev.TurnFailed():
                self._end(event)
            case ev.SessionSnapshot():
                self._show_snapshot(event)
            case ev.StepFinished():
                self.context, self.window = event.context, event.window or self.window
            case _:
                self._show_note(event)
        self._screen.refresh()

    def note(self, text: str, style: str = "quiet") -> None:
        """Print a line that is not part of the conversation."""
        self._screen.print(clean(text), style)

    # the answer

    def close(self) -> None:
        """Print the open line of an unfinished answer."""
        self.line.feed(self._clean.close())
        self.line.close()

    def _fold_reasoning(self) -> None:
        """Put the reasoning away: one line says that it is there."""
        thought, self.reasoning = clean(self.reasoning).strip(), ""
        if not thought:
            return
        self.line.close()
        self.folds.keep("reasoning", thought)
        words = len(thought.split())
        count = "1 word" if words == 1 else f"{words:,} words"
        self._screen.print(f"∴ thought, {count} ({OPEN_KEY} opens)", "thought")

    # the turn

    def _show_message(self, event: ev.TurnStarted | ev.MessageJoined) -> None:
        self.close()
        self.waiting.pop(event.inbox_id, None)
        self.print_user_message(event.text, joined=isinstance(event, ev.MessageJoined))
        self.doing = "thinking"
        if isinstance(event, ev.TurnStarted):
            self._begin()

    def print_user_message(self, text: str, *, joined: bool = False) -> None:
        """Print a user's message."""
        text = clean(text).rstrip("\n")
        heads = set()
        for output in self._outputs:
            if output in text:
                head = output.split("\n", 1)[0].rstrip(":")
                text = text.replace(output, head)
                heads.add(head)
        lines = text.split("\n")
        if len(lines) > 12:  # noqa: PLR2004
            lines = [*lines[:6], f"… {len(lines) - 8} lines …", *lines[-2:]]
        for number, line in enumerate(lines):
            shown = line if len(line) <= 2_000 else f"{line[:1_000]} … {len(line) - 1_000} more characters"  # noqa: PLR2004
            mark = YOU if number == 0 else "  "
            joins = "(joins) " if joined and number == 0 else ""
            style = "quiet" if line in heads else "said"
            self._screen.print(Text.assemble((mark, "you"), (joins + shown, style)))

    def add_output(self, output: str) -> None:
        """Note what a message takes along of a command that was run here: its output stands above already."""
        self._outputs.append(clean(output))

    def print_command(self, text: str) -> None:
        """Print a command as it was typed."""
        self._screen.print(Text.assemble((YOU, "you"), (one_line(text, 2_000), "quiet")))

    def _begin(self) -> None:
        self.began = self._clock.monotonic()
        self.line.begin_anew()
        self._clean = CleanStream()
        self._forget_asks()

    def _end(self, event: ev.TurnCompleted | ev.TurnInterrupted | ev.TurnFailed) -> None:
        self.close()
        self.tools.clear()
        self._forget_asks()
        self.began, self.doing = None, ""
        self.turns += 1
        if isinstance(event, ev.TurnInterrupted):
            self.note(f"⏹ interrupted{event.ending}. What was done is kept.", "warning")
        elif isinstance(event, ev.TurnFailed):
            self.note(f"✗ {event.error}", "failure")
            self.note("Your message is kept; /retry sends it again.")
        self._screen.print()

    def _show_snapshot(self, event: ev.SessionSnapshot) -> None:
        if not event.turn_id:
            return
        self.print_user_message(event.user_text)
        self._begin()
        self.doing = "running " + ", ".join(event.tools) if event.tools else "answering"
        self.line.feed(self._clean.feed(event.text))

    # tools and asks

    def _show_tool(
        self, event: ev.ToolStarted | ev.ToolOutput | ev.ToolFinished, diff: Sequence[str]
    ) -> None:
        if isinstance(event, ev.ToolStarted):
            self.close()
            self.tools[event.call_id] = running_tool(event, self._clock.monotonic())
            self.doing = f"running {one_line(event.name, 30)}"
            return
        if isinstance(event, ev.ToolOutput):
            running = self.tools.get(event.call_id)
            if running is not None:
                running.take(event.text)
            return
        running = self.tools.pop(event.call_id, None)
        for line in self._cards.lines(event, running, self._screen.width, diff):
            self._screen.print(line)
        left = next(reversed(self.tools.values()), None)
        self.doing = f"running {one_line(left.name, 30)}" if left else "thinking"

    def _show_ask(self, event: ev.ApprovalAsked | ev.QuestionAsked | ev.AskClosed) -> None:
        if isinstance(event, ev.AskClosed):
            asked = self._asks.pop(event.ask_id, None)
            if asked is not None and asked is self.ask:
                self.note(f"  {event.outcome}")
        else:
            self._asks[event.ask_id] = event
        # One at a time, so that a person never answers another ask than the one they read.
        current = next(iter(self._asks.values()), None)
        if current is not None and current is not self.ask:
            self.close()
            for line in ask_lines(current):
                self._screen.print(line)
            self._print_asked_change(current)
        self.ask = current

    def _print_asked_change(self, asked: "ev.ApprovalAsked | ev.QuestionAsked") -> None:
        """Print the whole change that an approval is about: a person must see all that they allow."""
        call = self.tools.get(asked.call_id)
        if call is not None and isinstance(asked, ev.ApprovalAsked):
            for line in call.diff(self._workspace):
                self._screen.print(Text.assemble("  ", coloured(clean(line))))

    def _forget_asks(self) -> None:
        self._asks.clear()
        self.ask = None

    # the rest

    def _show_note(self, event: ev.Event) -> None:
        match event:
            case ev.ModelRetrying():
                self.close()
                self.line.begin_anew()
                again = " The answer begins again." if event.partial else ""
                self.note(f"⟳ {event.problem} Trying again in {event.delay:.0f} s.{again}", "warning")
                self.doing = "waiting for the model"
            case ev.CompactionStarted():
                self.doing = "compacting"
            case ev.CompactionFinished():
                self.context = event.tokens_after or self.context
                self.note(f"⇲ compacted: {event.outcome}")
            case ev.DelegateStarted():
                self.note(f"⇢ subagent: {one_line(event.task, self._screen.width - 14)}")
            case ev.DelegateFinished():
                self.note(f"⇠ subagent {'is done' if event.ok else 'failed'}")
            case ev.Notice():
                self.close()
                self.note(f"ⓘ {event.text}", "warning")
            case ev.SessionTrouble():
                self.close()
                self.note(f"! {event.error} Your messages wait.", "failure")
            case ev.SessionMoved():
                self._show_move(event)
            case _:
                pass

    def _show_move(self, event: ev.SessionMoved) -> None:
        if event.elsewhere and not self.elsewhere:
            self.note("⇄ another process runs this conversation; it is followed here")
        self.elsewhere = event.elsewhere


def ask_lines(event: "ev.ApprovalAsked | ev.QuestionAsked") -> list[Text]:
    """A whole ask: a person must see everything that they allow."""
    if isinstance(event, ev.QuestionAsked):
        lines = [Text.assemble(("? ", "ask"), (clean(event.question), "said"))]
        lines += [
            Text(f"  {number}. {clean(choice)}") for number, choice in enumerate(event.choices, start=1)
        ]
        return lines
    why = f" ({clean(event.reason)})" if event.reason else ""
    head = "? This can't be undone. Allow" if event.destructive else "? Allow"
    colour = "danger" if event.destructive else "ask"
    lines = [
        Text.assemble((f"{head} this {clean(event.subject_kind)}{why}?", colour)),
        *(Text(f"  {line}") for line in clean(event.subject).split("\n")),
    ]
    if "always" in event.decisions:
        lines.append(Text(ALWAYS_MEANS, "quiet"))
    return lines
