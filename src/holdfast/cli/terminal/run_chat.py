"""Runs a chat from its first line to its last: shows the prompt, opens the host behind it, leaves.

The prompt needs neither the store nor a model, so it is there at once; what is typed meanwhile waits and is
handled when the conversations are open.
"""

import asyncio
import sys
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from prompt_toolkit.patch_stdout import patch_stdout

from holdfast.cli.terminal.chat import Chat, TypedAhead
from holdfast.cli.terminal.command_names import ABOUT
from holdfast.cli.terminal.completion import ChatCompleter, history_file
from holdfast.cli.terminal.frame_output import open_output
from holdfast.cli.terminal.prompt import PromptActions, PromptLook, make_prompt
from holdfast.cli.terminal.reflow import wraps_anew
from holdfast.cli.terminal.screen import Screen
from holdfast.cli.terminal.theme import look_of
from holdfast.core.clock import SystemClock
from holdfast.core.settings import Settings
from holdfast.process.daemon_pool import DaemonPool
from holdfast.process.off_loop import off_loop
from holdfast.wiring import data_folder, environment
from holdfast.wiring.workspace import workspace_of

if TYPE_CHECKING:
    from holdfast.host import SessionHost
    from holdfast.wiring.graceful_stop import GracefulStop

SOURCE = "cli"


def say(line: str) -> None:
    """Print a line while there is no prompt."""
    with suppress(OSError):  # the terminal was closed
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


async def run_chat(settings: Settings, wanted: str, typed: TypedAhead) -> None:
    """Talk until the person leaves. `typed` holds what was typed when the conversations can't be opened."""
    workspace = workspace_of(settings).folder
    look = look_of(settings.terminal.theme, environment())
    screen = Screen(open_output(environment()), look, wraps_anew=wraps_anew(environment()))
    chat = Chat(screen, SystemClock(), workspace, typed)
    chat.info.spinner = settings.terminal.spinner
    async with ShownPrompt(chat, settings) as prompt, AsyncExitStack() as stack:
        opening = asyncio.ensure_future(_opened(stack, settings))
        if not await prompt.wait_for(opening):
            opening.cancel()
            await asyncio.wait([opening])
            await prompt.close()
            farewell(chat)
            return
        host, leaving = await opening
        chat.open(host)
        await _converse(chat, prompt, leaving, wanted)
        await prompt.close()
        farewell(chat)
    leaving.raise_signal()


async def _opened(stack: AsyncExitStack, settings: Settings) -> "tuple[SessionHost, GracefulStop]":
    """Open the conversations; a thread loads what they need, so that the prompt answers meanwhile."""
    loading = DaemonPool("start", workers=1, backlog=1)
    await off_loop(loading, _load)
    loading.close(0.0)
    from holdfast.wiring.graceful_stop import open_host

    return await stack.enter_async_context(open_host(settings, source=SOURCE, say=say))


def _load() -> None:
    import holdfast.cli.terminal.recovery_prompt
    import holdfast.wiring.graceful_stop  # noqa: F401 - loaded here, used later


async def _converse(chat: Chat, prompt: "ShownPrompt", leaving: "GracefulStop", wanted: str) -> None:
    """Handle what is typed until it is time to leave."""
    from holdfast.cli.session_lookup import find_on_host
    from holdfast.cli.terminal.last_turn import show_last_turn
    from holdfast.cli.terminal.recovery_prompt import RecoveryPrompt, needs_decision

    greet(chat, chat.host)
    session_id = None
    if wanted:
        session_id = await find_on_host(chat.host, wanted)
        await show_last_turn(chat, session_id)
        if not await needs_decision(chat.host, session_id):
            await chat.attach(session_id)
    await chat.begin_serving()
    recovery = RecoveryPrompt(chat, session_id)
    works = (leaving.requested.wait(), chat.serve(), chat.tick(), chat.spin(), recovery.watch())
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        # The last one may end by itself without ending the chat.
        await asyncio.wait([*tasks[:4], *prompt.ends], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await prompt.close()
        await chat.detach()
    for task in tasks[1:4]:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            raise error


def greet(chat: Chat, host: "SessionHost") -> None:
    name = host.model.name if host.model else "an unknown model"
    chat.view.note(f"Holdfast with {name}. /help lists the commands, Ctrl-D leaves.", "strong")
    if host.model and host.model.notice:
        chat.view.note(host.model.notice, "warning")
    for problem in host.overview.problems:
        chat.view.note(f"! {problem}", "warning")


def farewell(chat: Chat) -> None:
    """Say that the chat ends, and how to resume it."""
    for line in chat.waiting_lines():
        say(f"kept for the next start: {line}")
    if chat.view.is_busy:
        say("leaving; the running turn is stopped, and what it did is kept")
    else:
        say("leaving")
    if chat.session_id is not None:
        say(f"to go on: holdfast chat --session {chat.session_id[-8:]}")


class ShownPrompt:
    """The prompt from its first drawing to its last."""

    def __init__(self, chat: Chat, settings: Settings) -> None:
        self._chat = chat
        actions = PromptActions(
            submit=chat.submit,
            interrupt=chat.interrupt,
            can_stop=chat.can_stop,
            stop=chat.stop,
            open_folds=chat.open_folds,
            leave=chat.leave,
            above=chat.above,
            below=chat.below,
        )
        try:
            history = history_file(data_folder())
        except OSError:
            history = None  # the prompt works without a history
        style = PromptLook(chat.screen.look, settings.terminal.keys == "vi")
        self._prompt = make_prompt(
            actions, ChatCompleter(ABOUT, chat.workspace), history, chat.screen.output, style
        )
        self._prompt.app.before_render += chat.screen.before_drawing
        self._prompt.app.after_render += chat.screen.drawn
        self._patch = patch_stdout(raw=True)
        self.ends: list[asyncio.Task[object]] = []
        """Done when the prompt has ended or the person wants to leave."""

    async def __aenter__(self) -> Self:
        self._patch.__enter__()
        draft = self._chat.typed_ahead.draft
        works = (
            self._prompt.prompt_async(default=draft, set_exception_handler=False, handle_sigint=False),
            self._chat.left.wait(),
        )
        self.ends = [asyncio.ensure_future(work) for work in works]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def wait_for(self, work: "asyncio.Future[Any]") -> bool:
        """Wait until the work is done, or the person leaves before; returns whether it is done."""
        await asyncio.wait([work, *self.ends], return_when=asyncio.FIRST_COMPLETED)
        return work.done()

    async def close(self) -> None:
        """Take the prompt away; what was printed stays. It may be called again."""
        ends, self.ends = self.ends, []
        if not ends:
            return
        shown, left = ends
        self._chat.view.close()
        self._chat.screen.uncover()
        await self._chat.screen.settle()
        self._chat.typed_ahead.draft = self._prompt.default_buffer.text
        if self._prompt.app.is_running and not shown.done():
            self._prompt.app.exit(result="")
        left.cancel()
        await asyncio.wait(ends)
        self._patch.__exit__(None, None, None)
        error = None if shown.cancelled() else shown.exception()
        # The end of input is a way to leave.
        if error is not None and not isinstance(error, EOFError):
            raise error
