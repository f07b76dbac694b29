"""Starts a conversation here: on the terminal, or line by line where there is none."""

import asyncio
import sys


def start_chat(wanted: str = "") -> None:
    """Talk, in a new conversation or the one that is wanted."""
    from holdfast.wiring import load_settings

    settings = load_settings()
    if sys.stdin.isatty() and sys.stdout.isatty():
        from holdfast.cli.terminal.running import run_chat

        asyncio.run(run_chat(settings, wanted))
    else:
        from holdfast.cli.lines import answer_lines

        asyncio.run(answer_lines(settings, wanted))
