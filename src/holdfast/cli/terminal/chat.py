"""`Chat`: one conversation on a terminal. `take` handles a typed line.

The prompt stands before the conversations are open, and stays while turns run. `view.py` shows the events,
`slash_commands.py` has the commands, and `recovery_prompt.py` asks about turns and messages that an earlier
run left.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prompt_toolkit.application import get_app_or_none
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.formatted_text import AnyFormattedText, fragment_list_to_text

from holdfast.cli.terminal.diff_text import body_lines
from holdfast.cli.terminal.letter_question import LetterQuestion
from holdfast.cli.terminal.own_command import OwnCommand
from holdfast.cli.terminal.screen import Screen
from holdfast.cli.terminal.status_line import WORDS, StatusInfo, answers, prompt_lines, status_text
from holdfast.cli.terminal.theme import Look
from holdfast.cli.terminal.view import TerminalView
from holdfast.core.clean_text import one_line
from holdfast.core.contract import Clock
from holdfast.core.errors import HoldfastError, InvalidInput
from holdfast.core.events import (
    ApprovalAsked,
    Event,
    MessageJoined,
    SessionRotated,
    SessionSnapshot,
    ToolFinished,
    TurnStarted,
)
from holdfast.process.background_tasks import BackgroundTasks

if TYPE_CHECKING:
    from holdfast.host import SessionHost
    from holdfast.sessions.contract import Mode

logger = logging.getLogger(__name__)

AGAIN_SECONDS = 2.0
"""Two Ctrl-C within this time leave."""
SPIN_SECONDS = 0.25


@dataclass(slots=True)
class TypedAhead:
    """What a person typed before the conversations were open: whole lines, and one that is not sent."""

    lines: list[str] = field(default_factory=list)
    draft: str = ""


class Chat:
    """The conversation on a terminal. Used on the loop's thread only."""

    def __init__(
        self, screen: Screen, clock: Clock, workspace: Path, typed: TypedAhead | None = None
    ) -> None:
        self.screen = screen
        screen.on_rows_kept = self._rows_kept
        self.left = asyncio.Event()
        """The person wants to leave."""
        self.session_id: str | None = None
        self.workspace = workspace
        self.view = TerminalView(screen, clock, workspace=workspace)
        self.mode: Mode = "queue"
        self.info = StatusInfo()
        self._host: SessionHost | None = None
        self._clock = clock
        self._typed: asyncio.Queue[str] = asyncio.Queue()
        self.typed_ahead = typed or TypedAhead()
        for line in self.typed_ahead.lines:
            self._typed.put_nowait(line)
        self._show_typed_ahead()
        self._reader: asyncio.Task[None] | None = None
        self._taken: set[int] = set()
        self._tasks = BackgroundTasks()
        self._last_interrupt = float("-inf")
        self._question = LetterQuestion(screen.refresh)
        self.choose = self._question.ask
        self.own_command = OwnCommand(self)

    @property
    def host(self) -> "SessionHost":
        """The conversations; there from `open` on, before any line is handled."""
        if self._host is None:
            raise RuntimeError("the conversations are not open yet")
        return self._host

    def open(self, host: "SessionHost") -> None:
        """The conversations are there."""
        self._host = host
        if host.model is not None:
            self.info.model, self.info.window = host.model.name, host.model.context_window
        self.start(self._load_model(host))

    async def begin_serving(self) -> None:
        """What was printed so far is on the terminal; from here on the status line says that all is ready."""
        await self.screen.settle()
        self.info.starting = False
        self.screen.refresh()

    async def _load_model(self, host: "SessionHost") -> None:
        """Load a model on this machine while the person types; the status line says it."""
        self.info.loading = True
        try:
            await host.warm_up()
        finally:
            self.info.loading = False
            self.screen.refresh()

    def set_look(self, look: Look) -> None:
        """Draw everything in other colours from now on."""
        self.screen.look = look
        if (app := get_app_or_none()) is not None:
            app.style = look.prompt

    def set_keys(self, *, vi: bool) -> None:
        """Use other keys in the input line from now on."""
        if (app := get_app_or_none()) is not None:
            app.editing_mode = EditingMode.VI if vi else EditingMode.EMACS

    def leave(self) -> None:
        """Ask the chat to end."""
        self.left.set()

    # the prompt

    def above(self) -> AnyFormattedText:
        lines = prompt_lines(self.screen, self.view, self._clock.monotonic())
        if self._question.mark:
            lines[-1] = ("class:ask", f"{self._question.mark} > ")
        self.screen.above = fragment_list_to_text(lines).split("\n")
        return lines

    def _rows_kept(self, kept: str) -> None:
        self.view.line.leave_behind(kept)

    def below(self) -> AnyFormattedText:
        return status_text(self.info, self.view, self.screen.width - 1, self._clock.monotonic())

    def submit(self, text: str) -> None:
        """A line was typed."""
        self._typed.put_nowait(text)
        if self._host is None:
            self.typed_ahead.lines.append(text)
            self._show_typed_ahead()

    def _show_typed_ahead(self) -> None:
        for number, text in enumerate(self.typed_ahead.lines, start=1):
            self.view.waiting[-number] = (self.mode, text)

    def can_stop(self) -> bool:
        """Whether something runs that Esc or Ctrl-C would stop."""
        return self.view.is_busy or self.own_command.is_running

    def stop(self) -> None:
        """Esc: stop what runs."""
        if self.own_command.is_running:
            self.own_command.stop()
        elif self.view.is_busy and self.session_id is not None:
            self.start(self._interrupt(self.session_id))

    def interrupt(self, buffer: Buffer) -> None:
        """Ctrl-C: once interrupts the turn, twice leaves."""
        if buffer.text and not self.can_stop():
            buffer.reset()
            return
        now = self._clock.monotonic()
        if now - self._last_interrupt < AGAIN_SECONDS:
            self.leave()
            return
        self._last_interrupt = now
        if self.can_stop():
            self.info.hint = "interrupted; Ctrl-C again leaves"
            self.stop()
        else:
            self.info.hint = "Ctrl-C again or Ctrl-D leaves"
        self.screen.refresh()

    async def _interrupt(self, session_id: str) -> None:
        if not await self.host.interrupt(session_id):
            self.view.note("Nothing runs any more.")

    def open_folds(self) -> None:
        """Ctrl-O: show what was folded, the newest first."""
        from holdfast.cli.terminal.viewer import view_folds

        folds = self.view.folds.all()
        if not folds:
            self.view.note("Nothing is folded in this conversation.")
            return
        self.start(view_folds(self.screen, folds))

    # a typed line

    async def serve(self) -> None:
        """Handle typed lines, one after another."""
        from holdfast.cli.terminal.slash_commands import SlashCommands

        commands = SlashCommands(self)
        while True:
            text = await self._typed.get()
            if self.typed_ahead.lines:
                self.view.waiting.pop(-len(self.typed_ahead.lines), None)
                self.typed_ahead.lines.pop(0)
            try:
                await self.take(text, commands)
            except HoldfastError as refusal:
                self.view.note(f"✗ {refusal}", "failure")
            except Exception as failure:
                logger.exception("chat.failed")
                self.view.note(f"✗ {type(failure).__name__}: {failure}; the log has the details", "failure")

    async def take(self, text: str, commands: Any) -> None:  # noqa: ANN401 - SlashCommands, which needs this class
        if self._question.answer(text):
            return
        if commands.is_command(text):
            self.view.print_command(text)
            await commands.run(text)
            self.screen.print()
        elif self.own_command.is_meant(text) and self.view.ask is None:
            self.own_command.begin(text)
        elif self.view.ask is not None:
            await self._answer(text)
        else:
            await self.send(text)

    async def _answer(self, text: str) -> None:
        from holdfast.tools.open_questions import parse_approval

        asked = self.view.ask
        if asked is None or self.session_id is None:
            return
        if isinstance(asked, ApprovalAsked) and parse_approval(text) is None:
            # Not an answer to the approval, so it is a message.
            await self.send(text)
            self.view.note(f"{answers(asked)} answers the question; your message waits.")
            return
        if not await self.host.answer(self.session_id, asked.ask_id, text):
            self.view.note("That question is closed already; your text is the next message.")

    async def send(self, text: str) -> None:
        """Send a message; it is stored when this returns."""
        from holdfast.cli.attached_files import with_named_files

        message = self.own_command.with_outputs(await with_named_files(text, self.workspace, self._warn))
        session_id = self.session_id or await self.begin()
        accepted = await self.host.send(session_id, message, self.mode)
        self.own_command.outputs_sent()
        if accepted.inbox_id not in self._taken:
            self.view.waiting[accepted.inbox_id] = (accepted.mode, text)
            self.screen.refresh()

    # the conversation

    async def begin(self) -> str:
        """Begin a new conversation; the memory of the one before is committed."""
        session_id = await self.host.new_session(self.session_id)
        await self.attach(session_id)
        return session_id

    async def attach(self, session_id: str) -> None:
        """Show this conversation from now on."""
        await self.detach()
        self.session_id = session_id
        self._taken.clear()
        self.view.close()
        self.view = self.new_view()
        for message in await self.host.records.waiting(session_id):
            content = message.message.get("content")
            self.view.waiting[message.id] = (message.mode, content if isinstance(content, str) else "…")
        ready = asyncio.Event()
        self._reader = asyncio.create_task(self._read(session_id, ready), name="chat reader")
        self._reader.add_done_callback(lambda _: ready.set())
        await ready.wait()
        self.start(self.measure())

    def new_view(self) -> TerminalView:
        """A view that shows another conversation; what was folded before can still be opened."""
        return TerminalView(self.screen, self._clock, self.view.folds, self.workspace)

    async def measure(self) -> None:
        """Show how full the model's window is before the next turn reports it."""
        view, session_id = self.view, self.session_id
        if session_id is None:
            return
        turns = view.turns
        context = await self.host.overview.context_size(session_id)
        # A turn that ended since then has newer numbers.
        if view.turns == turns:
            view.context, view.window = context.tokens, context.window
            self.screen.refresh()

    async def detach(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.wait([self._reader])
            self._reader = None

    async def _read(self, session_id: str, ready: asyncio.Event) -> None:
        try:
            async with aclosing(self.host.follow(session_id)) as events:
                async for event in events:
                    if isinstance(event, (TurnStarted, MessageJoined)):
                        self._taken.add(event.inbox_id)
                    if isinstance(event, SessionRotated):
                        self.session_id = event.child_id
                    self.view.show(event, await self.changed_by(event, self.view))
                    if isinstance(event, SessionSnapshot):
                        ready.set()
        except HoldfastError as refusal:
            self.view.note(f"✗ {refusal}", "failure")
        except Exception as failure:
            logger.exception("chat.reader_failed")
            problem = f"✗ the conversation can't be shown: {failure}; the log has the details"
            self.view.note(problem, "failure")

    async def changed_by(self, event: Event, view: TerminalView) -> Sequence[str]:
        """What a call in a view that wrote a whole file changed in it; the call itself does not say it."""
        if not isinstance(event, ToolFinished) or event.name != "write_file" or not event.ok:
            return ()
        call = view.tools.get(event.call_id)
        path = str(call.arguments.get("path")) if call else ""
        try:
            found = await self.host.files.changes(event.session_id, event.turn_id)
        except HoldfastError:
            return ()
        return next((body_lines(each.diff) for each in found if Path(path).match(each.path)), ())

    def _warn(self, text: str) -> None:
        self.view.note(text, "warning")

    # what the commands use

    def say(self, *lines: str, style: str = "") -> None:
        """Print lines that are not part of the conversation."""
        for line in lines:
            self.view.note(line, style)

    def here(self) -> str:
        """The conversation on the screen."""
        if self.session_id is None:
            raise InvalidInput("nothing was said yet")
        return self.session_id

    def idle(self) -> str:
        """The conversation on the screen, in which nothing runs."""
        if self.view.is_busy:
            raise InvalidInput("a turn runs; interrupt it first (Esc)")
        return self.here()

    # background work

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run work in the background; its errors are shown."""
        self._tasks.keep(work).add_done_callback(self._show_error)

    def _show_error(self, task: "asyncio.Task[Any]") -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, HoldfastError):
            self.view.note(f"✗ {error}", "failure")
        elif error is not None:
            logger.error("chat.task_failed", exc_info=error)
            self.view.note(f"✗ {type(error).__name__}: {error}; the log has the details", "failure")

    async def tick(self) -> None:
        """Keep the status line up to date."""
        while True:
            try:
                status = await self.host.overview.status()
                self.info.owed = sum(each.owed for each in status.memory)
            except HoldfastError:
                logger.warning("chat.status_failed", exc_info=True)
            if self._clock.monotonic() - self._last_interrupt >= AGAIN_SECONDS:
                self.info.hint = ""
            self.info.mode = self.mode
            self.screen.refresh()
            await asyncio.sleep(1.0)

    async def spin(self) -> None:
        """Turn the sign in the status line while something runs."""
        while True:
            if self.info.spinner and self.view.is_busy and self.view.ask is None:
                self.screen.refresh()
            await asyncio.sleep(SPIN_SECONDS)

    def waiting_lines(self) -> list[str]:
        """The waiting messages, for the exit."""
        return [f"{WORDS.get(mode, mode)}: {one_line(text, 60)}" for mode, text in self.view.waiting.values()]
