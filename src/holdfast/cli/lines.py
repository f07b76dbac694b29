"""A chat without a terminal: each line of standard input is a message and is answered."""

import asyncio
import sys
from contextlib import aclosing
from typing import Any

from holdfast.cli.finding import found_by
from holdfast.cli.one_turn import turn_of
from holdfast.cli.plain import PlainView
from holdfast.core.settings import Settings
from holdfast.host import Host
from holdfast.process import DaemonPool, off_loop
from holdfast.wiring.leaving import Leaving, host_run

SOURCE = "cli"


def say(line: str) -> None:
    """A diagnostic."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


async def answer_lines(settings: Settings, wanted: str) -> None:
    """Answer each line; ends with the input."""
    # A read that never returns must not hold up the exit.
    reading = DaemonPool("stdin", workers=1, backlog=1)
    async with host_run(settings, source=SOURCE, say=say) as (host, leaving):
        notices(host)
        session_id = await found_by(host, wanted) if wanted else await host.new_session()
        while not leaving.asked.is_set():
            line = await _next_line(reading, leaving)
            if not line:
                break
            if line.strip():
                await answer(host, session_id, line.strip(), leaving)
    leaving.raise_signal()


async def answer(host: Host, session_id: str, text: str, leaving: Leaving) -> None:
    """One message and its answer."""
    view = PlainView(sys.stdout, sys.stderr, live=sys.stdout.isatty())
    async with aclosing(turn_of(host, session_id, text, leaving)) as events:
        async for event in events:
            view.show(event)


def notices(host: Host) -> None:
    """What a person should know before the first answer."""
    if host.model and host.model.notice:
        say(host.model.notice)
    for problem in host.problems:
        say(problem)


async def _read(reading: DaemonPool) -> str:
    return await off_loop(reading, sys.stdin.readline)


async def _next_line(reading: DaemonPool, leaving: Leaving) -> str:
    """The next line, or nothing when the input ends or a stop is asked for."""
    line = asyncio.create_task(_read(reading))
    stop = asyncio.create_task(leaving.asked.wait())
    both: list[asyncio.Task[Any]] = [line, stop]
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if not line.done():
        line.cancel()
        return ""
    return line.result()
