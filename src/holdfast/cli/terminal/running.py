"""Runs a chat from its first line to its last: opens the host, shows the prompt, leaves."""

import asyncio
import sys
from contextlib import suppress

from prompt_toolkit.output import create_output
from prompt_toolkit.patch_stdout import patch_stdout

from holdfast.cli.finding import found_by
from holdfast.cli.terminal.chat import Chat
from holdfast.cli.terminal.completion import ChatCompleter, history_file
from holdfast.cli.terminal.keys import Around, Hands, make_prompt
from holdfast.cli.terminal.leftovers import Leftovers, left_behind
from holdfast.cli.terminal.screen import Screen
from holdfast.cli.terminal.slash import ABOUT, SlashCommands
from holdfast.core.clock import SystemClock
from holdfast.core.settings import Settings
from holdfast.host import Host
from holdfast.wiring import data_folder
from holdfast.wiring.leaving import Leaving, host_run

SOURCE = "cli"


def say(line: str) -> None:
    """A line for the person once the prompt is gone, or before it is there."""
    with suppress(OSError):  # the terminal was closed
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


async def run_chat(settings: Settings, wanted: str) -> None:
    """Talk until the person leaves."""
    async with host_run(settings, source=SOURCE, say=say) as (host, leaving):
        chat = Chat(host, leaving, Screen(create_output(stdout=sys.stdout)), SystemClock())
        greet(chat, host)
        session_id = None
        if wanted:
            session_id = await found_by(host, wanted)
            SlashCommands(chat).show_end(await host.messages(session_id))
            if not await left_behind(host, session_id):
                await chat.attach(session_id)
        await chat.screen.settle()
        await converse(chat, leaving, session_id)
        await chat.screen.settle()
        farewell(chat)
    leaving.raise_signal()


def greet(chat: Chat, host: Host) -> None:
    name = host.model.name if host.model else "an unknown model"
    chat.view.note(f"Holdfast with {name}. /help lists the commands, Ctrl-D leaves.", "bold")
    if host.model and host.model.notice:
        chat.view.note(host.model.notice, "yellow")
    for problem in host.problems:
        chat.view.note(f"! {problem}", "yellow")


def farewell(chat: Chat) -> None:
    """Say at once that it ends, and how to come back."""
    for line in chat.waiting_words():
        say(f"kept for the next start: {line}")
    if chat.view.is_busy:
        say("leaving; the running turn is stopped, and what it did is kept")
    else:
        say("leaving")
    if chat.session_id is not None:
        say(f"to go on: holdfast chat --session {chat.session_id[-8:]}")


async def converse(chat: Chat, leaving: Leaving, wanted: str | None) -> None:
    """Keep the prompt up until it is time to leave."""
    hands = Hands(chat.submit, chat.interrupt, leaving.ask)
    try:
        history = history_file(data_folder())
    except OSError:
        history = None  # typing works without a memory of it
    output = create_output(stdout=sys.stdout)
    prompt = make_prompt(hands, Around(chat.above, chat.below), ChatCompleter(ABOUT), history, output)
    with patch_stdout(raw=True):
        tasks = [
            asyncio.ensure_future(work)
            for work in (
                prompt.prompt_async(set_exception_handler=False, handle_sigint=False),
                leaving.asked.wait(),
                chat.serve(),
                chat.tick(),
                Leftovers(chat, wanted).watch(),
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
