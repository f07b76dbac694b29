"""Runs a chat from its first line to its last: opens the host, shows the prompt, leaves."""

import asyncio
import sys
from contextlib import suppress

from prompt_toolkit.output import create_output
from prompt_toolkit.patch_stdout import patch_stdout

from holdfast.cli.session_lookup import find_on_host
from holdfast.cli.terminal.chat import Chat
from holdfast.cli.terminal.completion import ChatCompleter, history_file
from holdfast.cli.terminal.prompt import PromptActions, make_prompt
from holdfast.cli.terminal.recovery_prompt import RecoveryPrompt, needs_decision
from holdfast.cli.terminal.reflow import wraps_anew
from holdfast.cli.terminal.screen import Screen
from holdfast.cli.terminal.slash_commands import ABOUT, SlashCommands
from holdfast.core.clock import SystemClock
from holdfast.core.settings import Settings
from holdfast.host import SessionHost
from holdfast.wiring import data_folder, environment
from holdfast.wiring.graceful_stop import GracefulStop, open_host

SOURCE = "cli"


def say(line: str) -> None:
    """Print a line while there is no prompt."""
    with suppress(OSError):  # the terminal was closed
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


async def run_chat(settings: Settings, wanted: str) -> None:
    """Talk until the person leaves."""
    async with open_host(settings, source=SOURCE, say=say) as (host, leaving):
        chat = Chat(
            host,
            leaving,
            Screen(create_output(stdout=sys.stdout), wraps_anew=wraps_anew(environment())),
            SystemClock(),
        )
        greet(chat, host)
        session_id = None
        if wanted:
            session_id = await find_on_host(host, wanted)
            SlashCommands(chat).show_end(await host.records.messages(session_id))
            if not await needs_decision(host, session_id):
                await chat.attach(session_id)
        await chat.screen.settle()
        await converse(chat, leaving, session_id)
        await chat.screen.settle()
        farewell(chat)
    leaving.raise_signal()


def greet(chat: Chat, host: SessionHost) -> None:
    name = host.model.name if host.model else "an unknown model"
    chat.view.note(f"Holdfast with {name}. /help lists the commands, Ctrl-D leaves.", "bold")
    if host.model and host.model.notice:
        chat.view.note(host.model.notice, "yellow")
    for problem in host.overview.problems:
        chat.view.note(f"! {problem}", "yellow")


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


async def converse(chat: Chat, leaving: GracefulStop, wanted: str | None) -> None:
    """Keep the prompt up until it is time to leave."""
    actions = PromptActions(chat.submit, chat.interrupt, leaving.request, chat.above, chat.below)
    try:
        history = history_file(data_folder())
    except OSError:
        history = None  # the prompt works without a history
    output = create_output(stdout=sys.stdout)
    prompt = make_prompt(actions, ChatCompleter(ABOUT), history, output)
    prompt.app.before_render += chat.screen.before_drawing
    with patch_stdout(raw=True):
        tasks = [
            asyncio.ensure_future(work)
            for work in (
                prompt.prompt_async(set_exception_handler=False, handle_sigint=False),
                leaving.requested.wait(),
                chat.serve(),
                chat.tick(),
                RecoveryPrompt(chat, wanted).watch(),
            )
        ]
        try:
            # The last one may end by itself without ending the chat.
            await asyncio.wait(tasks[:4], return_when=asyncio.FIRST_COMPLETED)
        finally:
            chat.view.close()
            await chat.screen.settle()
            if prompt.app.is_running and not tasks[0].done():
                prompt.app.exit(result="")
            for task in tasks[1:]:
                task.cancel()
            await asyncio.wait(tasks)
            await chat.detach()
    for task in (tasks[0], tasks[2], tasks[3]):
        error = None if task.cancelled() else task.exception()
        # The end of input is a way to leave.
        if error is not None and not isinstance(error, EOFError):
            raise error
