"""A chat without a terminal: each line of standard input is a message."""

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing

from holdfast.cli.attached_files import with_named_files
from holdfast.cli.plain_view import PlainView
from holdfast.cli.session_lookup import find_on_host
from holdfast.core.contract import Message
from holdfast.core.events import Event
from holdfast.core.settings import Settings
from holdfast.host import AskOptions, SessionHost
from holdfast.process import DaemonPool, off_loop
from holdfast.wiring.graceful_stop import GracefulStop, open_host
from holdfast.wiring.workspace import workspace_of

SOURCE = "cli"


def say(line: str) -> None:
    """Print a diagnostic."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


async def answer_lines(settings: Settings, wanted: str) -> None:
    """Answer each line until the input ends."""
    # On a daemon thread, so that a read that never returns can't hold up the exit.
    folder = workspace_of(settings).folder
    reading = DaemonPool("stdin", workers=1, backlog=1)
    async with open_host(settings, source=SOURCE, say=say, attended=False) as (host, leaving):
        notices(host)
        session_id = await find_on_host(host, wanted) if wanted else await host.new_session()
        while not leaving.requested.is_set():
            line = await _next_line(reading, leaving)
            if not line:
                break
            if line.strip():
                message = await with_named_files(line.strip(), folder, say)
                await answer(host, session_id, message, leaving)
    leaving.raise_signal()


async def turn_events(
    host: SessionHost, session_id: str, message: str | Message, leaving: GracefulStop
) -> AsyncGenerator[Event, None]:
    """Send a message; returns the events of its turn. A request to stop interrupts the turn."""
    # Another process that runs the turn may have a person to ask.
    options = AskOptions(when_asked="refuse-here", stop=leaving.requested)
    return (await host.start_turn(session_id, message, options)).events()


async def answer(host: SessionHost, session_id: str, message: str | Message, leaving: GracefulStop) -> None:
    """Send one message and print its answer."""
    view = PlainView(sys.stdout, sys.stderr, live=sys.stdout.isatty())
    try:
        async with aclosing(await turn_events(host, session_id, message, leaving)) as events:
            async for event in events:
                view.show(event)
    except KeyboardInterrupt as interrupted:
        if leaving.signal not in (None, signal.SIGINT):
            say(str(interrupted))
            leaving.raise_signal()
        raise


def notices(host: SessionHost) -> None:
    """Print what a person should know before the first answer."""
    if host.model and host.model.notice:
        say(host.model.notice)
    for problem in host.overview.problems:
        say(problem)


async def _next_line(reading: DaemonPool, leaving: GracefulStop) -> str:
    """The next line; empty when the input ends or a stop is asked for."""
    line: asyncio.Task[str] = asyncio.create_task(off_loop(reading, sys.stdin.readline))
    if await leaving.wait_for(line):
        return line.result()
    line.cancel()
    return ""
