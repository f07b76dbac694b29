"""`Chat`: one conversation on a terminal. `take` handles a typed line.

The prompt stays while turns run. `view.py` shows the events, `slash_commands.py` has the commands, and
`recovery_prompt.py` asks about turns and messages that an earlier run left.
"""

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import aclosing
from pathlib import Path
from typing import Any

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.formatted_text import AnyFormattedText, fragment_list_to_text

from holdfast.cli.attached_files import with_named_files
from holdfast.cli.terminal.screen import Screen
from holdfast.cli.terminal.status_line import WORDS, StatusInfo, answers, prompt_lines, status_text
from holdfast.cli.terminal.view import TerminalView
from holdfast.core.clean_text import one_line
from holdfast.core.contract import Clock
from holdfast.core.errors import HoldfastError
from holdfast.core.events import ApprovalAsked, MessageJoined, SessionRotated, SessionSnapshot, TurnStarted
from holdfast.host import SessionHost
from holdfast.process import BackgroundTasks
from holdfast.sessions.contract import Mode
from holdfast.tools.open_questions import parse_approval
from holdfast.wiring.graceful_stop import GracefulStop

logger = logging.getLogger(__name__)

AGAIN_SECONDS = 2.0
"""Two Ctrl-C within this time leave."""


class Chat:
    """The conversation on a terminal. Used on the loop's thread only."""

    def __init__(self, host: SessionHost, leaving: GracefulStop, screen: Screen, clock: Clock) -> None:
        self.host = host
        self.screen = screen
        screen.on_rows_kept = self._rows_kept
        self.leaving = leaving
        self.session_id: str | None = None
        self.view = TerminalView(screen, clock)
        self.mode: Mode = "queue"
        self.info = StatusInfo(
            model=host.model.name if host.model else "", window=host.model.context_window if host.model else 0
        )
        self._clock = clock
        self._typed: asyncio.Queue[str] = asyncio.Queue()
        self._reader: asyncio.Task[None] | None = None
        self._taken: set[int] = set()
        self._tasks = BackgroundTasks()
        self._last_interrupt = float("-inf")
        self._question: tuple[str, dict[str, str], asyncio.Future[str]] | None = None

    # the prompt

    def above(self) -> AnyFormattedText:
        lines = prompt_lines(self.screen, self.view, self._clock.monotonic())
        if self._question is not None:
            lines[-1] = ("class:ask", f"{self._question[0]} > ")
        self.screen.above = fragment_list_to_text(lines).split("\n")
        return lines

    def _rows_kept(self, kept: str) -> None:
        self.view.line.leave_behind(kept)

    def below(self) -> AnyFormattedText:
        return status_text(self.info, self.view, self.screen.width - 1)

    def submit(self, text: str) -> None:
        """A line was typed."""
        self._typed.put_nowait(text)

    def interrupt(self, buffer: Buffer) -> None:
        """Ctrl-C: once interrupts the turn, twice leaves."""
        if buffer.text and not self.view.is_busy:
            buffer.reset()
            return
        now = self._clock.monotonic()
        if now - self._last_interrupt < AGAIN_SECONDS:
            self.leaving.request()
            return
        self._last_interrupt = now
        if self.view.is_busy and self.session_id is not None:
            self.info.hint = "interrupted; Ctrl-C again leaves"
            self.start(self._interrupt(self.session_id))
        else:
            self.info.hint = "Ctrl-C again or Ctrl-D leaves"
        self.screen.refresh()

    async def _interrupt(self, session_id: str) -> None:
        if not await self.host.interrupt(session_id):
            self.view.note("Nothing runs any more.")

    # a typed line

    async def serve(self) -> None:
        """Handle typed lines, one after another."""
        from holdfast.cli.terminal.slash_commands import SlashCommands

        commands = SlashCommands(self)
        while True:
            text = await self._typed.get()
            try:
                await self.take(text, commands)
            except HoldfastError as refusal:
                self.view.note(f"✗ {refusal}", "red")
            except Exception as failure:
                logger.exception("chat.failed")
                self.view.note(f"✗ {type(failure).__name__}: {failure}; the log has the details", "red")

    async def take(self, text: str, commands: Any) -> None:  # noqa: ANN401 - SlashCommands, which needs this class
        if self._question is not None and self._answer_question(text):
            return
        if commands.is_command(text):
            await commands.run(text)
        elif self.view.ask is not None:
            await self._answer(text)
        else:
            await self.send(text)

    async def _answer(self, text: str) -> None:
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
        message = await with_named_files(text, Path.cwd())
        session_id = self.session_id or await self.begin()
        accepted = await self.host.send(session_id, message, self.mode)
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
        self.view = TerminalView(self.screen, self._clock)
        for message in await self.host.records.waiting(session_id):
            content = message.message.get("content")
            self.view.waiting[message.id] = (message.mode, content if isinstance(content, str) else "…")
        ready = asyncio.Event()
        self._reader = asyncio.create_task(self._read(session_id, ready), name="chat reader")
        self._reader.add_done_callback(lambda _: ready.set())
        await ready.wait()
        self.start(self.measure())

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
                    self.view.show(event)
                    if isinstance(event, SessionSnapshot):
                        ready.set()
        except HoldfastError as refusal:
            self.view.note(f"✗ {refusal}", "red")
        except Exception as failure:
            logger.exception("chat.reader_failed")
            self.view.note(f"✗ the conversation can't be shown: {failure}; the log has the details", "red")

    # questions of the terminal itself

    async def choose(self, mark: str, choices: dict[str, str]) -> str:
        """Ask for one of a few letters. Any other line chooses the last one and is handled as typed."""
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._question = (mark, choices, answer)
        self.screen.refresh()
        try:
            return await answer
        finally:
            self._question = None
            self.screen.refresh()

    def _answer_question(self, text: str) -> bool:
        if self._question is None:
            return False
        _, choices, answer = self._question
        self._question = None
        word = text.strip().lower()
        found = next((value for key, value in choices.items() if word in (key, value)), None)
        if not answer.done():
            answer.set_result(found or list(choices.values())[-1])
        return found is not None

    # background work

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run work in the background; its errors are shown."""
        self._tasks.keep(work).add_done_callback(self._show_error)

    def _show_error(self, task: "asyncio.Task[Any]") -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, HoldfastError):
            self.view.note(f"✗ {error}", "red")
        elif error is not None:
            logger.error("chat.task_failed", exc_info=error)
            self.view.note(f"✗ {type(error).__name__}: {error}; the log has the details", "red")

    async def tick(self) -> None:
        """Keep the status line up to date."""
        while True:
            try:
                status = await self.host.status()
                self.info.owed = sum(each.owed for each in status.memory)
            except HoldfastError:
                logger.warning("chat.status_failed", exc_info=True)
            if self._clock.monotonic() - self._last_interrupt >= AGAIN_SECONDS:
                self.info.hint = ""
            self.info.mode = self.mode
            self.screen.refresh()
            await asyncio.sleep(1.0)

    def waiting_lines(self) -> list[str]:
        """The waiting messages, for the exit."""
        return [f"{WORDS.get(mode, mode)}: {one_line(text, 60)}" for mode, text in self.view.waiting.values()]
