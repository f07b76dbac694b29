"""`holdfast chat`: talk with the agent on this terminal, or line by line where there is none."""

import asyncio
import sys
from typing import Annotated

from cyclopts import Parameter


def chat(
    *,
    session: Annotated[str, Parameter(name=["--session", "-s"])] = "",
    resume: Annotated[bool, Parameter(name=["--continue", "-c"], negative="")] = False,
) -> None:
    """Talk with the agent. Without a terminal, each line of standard input is answered.

    Parameters
    ----------
    session
        The conversation to go on with: its id, the end of it, or its number in `holdfast sessions`.
    resume
        Go on with the last conversation.

    """
    from holdfast.wiring import load_settings

    settings = load_settings()
    wanted = session or ("1" if resume else "")
    if sys.stdin.isatty() and sys.stdout.isatty():
        from holdfast.cli.terminal.running import run_chat

        asyncio.run(run_chat(settings, wanted))
    else:
        from holdfast.cli.lines import answer_lines

        asyncio.run(answer_lines(settings, wanted))
