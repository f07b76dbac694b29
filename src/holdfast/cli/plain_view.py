"""Prints a turn without a prompt: the answer on standard output, everything else on standard error."""

from typing import TextIO

from holdfast.core import events as ev
from holdfast.core.clean_text import CleanStream, clean, one_line
from holdfast.host import turn_error

WIDTH = 100


class PlainView:
    """One turn as text. With `live`, the answer is written as it comes; otherwise at the end."""

    def __init__(self, stdout: TextIO, stderr: TextIO, *, live: bool) -> None:
        self._out = stdout
        self._err = stderr
        self._live = live
        self._clean = CleanStream()
        self._text: list[str] = []
        self._elsewhere = False

    def show(self, event: ev.Event) -> None:
        """Print one event; raises when the turn failed or was interrupted."""
        match event:
            case ev.TextDelta():
                self._answer(self._clean.feed(event.text))
            case ev.ToolStarted():
                self._end_line()
                self._note(f"… {event.name} {one_line(event.arguments, WIDTH)}")
            case ev.ToolFinished(ok=False):
                self._note(f"✗ {event.name}: {one_line(event.output, WIDTH)}")
            case ev.ApprovalAsked() | ev.QuestionAsked():
                self._show_ask(event)
            case ev.SessionMoved():
                self._elsewhere = event.elsewhere
            case ev.ModelRetrying():
                self._end_line()
                self._note(f"{event.problem} Trying again in {event.delay:.0f} s.")
            case ev.Notice():
                self._note(event.text)
            case ev.SessionTrouble():
                self._note(f"{event.error} The message waits.")
            case _:
                self._show_end(event)

    def _show_ask(self, event: ev.ApprovalAsked | ev.QuestionAsked) -> None:
        what = event.subject if isinstance(event, ev.ApprovalAsked) else event.question
        if self._elsewhere:
            self._note(f"asked in another process that runs this conversation: {one_line(what, WIDTH)}")
        elif isinstance(event, ev.ApprovalAsked):
            self._note(f"refused, since nobody is there to allow it: {one_line(what, WIDTH)}")
            if "always" in event.decisions:
                self._note("HOLDFAST_TOOLS_ALLOW names what needs no approval")
            else:
                why = f" ({event.reason})" if event.reason else ""
                self._note(f"no rule covers this{why}; `holdfast chat` asks you about it")
        else:
            self._note(f"asked, and nobody is there to answer: {one_line(what, WIDTH)}")

    def _show_end(self, event: ev.Event) -> None:
        if isinstance(event, ev.TurnCompleted):
            if self._live:
                self._end_line()
            else:
                # Text before a tool call is not the answer.
                answer = clean(event.final_response) or "".join(self._text)
                self._out.write(answer if answer.endswith("\n") else f"{answer}\n")
            self._out.flush()
        elif isinstance(event, ev.TurnFailed):
            self._end_line()
            raise turn_error(event)
        elif isinstance(event, ev.TurnInterrupted):
            self._end_line()
            raise KeyboardInterrupt(f"interrupted{event.ending}; what was done is kept")

    def _answer(self, text: str) -> None:
        self._text.append(text)
        if self._live:
            self._out.write(text)
            self._out.flush()

    def _end_line(self) -> None:
        if not self._live:
            self._text.clear()
            return
        rest = self._clean.close()
        if self._text and not (self._text[-1] + rest).endswith("\n"):
            self._out.write(f"{rest}\n")
            self._out.flush()
        self._text.clear()

    def _note(self, text: str) -> None:
        self._err.write(f"{clean(text)}\n")
        self._err.flush()
