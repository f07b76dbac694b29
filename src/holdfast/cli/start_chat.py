"""Starts a chat on the terminal or, without one, line by line."""

import sys

from holdfast.cli.closed_streams import ClosedInput
from holdfast.core.errors import InvalidInput, ModelMissing
from holdfast.core.settings import Settings
from holdfast.process import run


def start_chat(wanted: str = "", workspace: str = "") -> None:
    """Chat in a new conversation, or in the one that `wanted` names."""
    from holdfast.wiring import load_settings
    from holdfast.wiring.workspace import with_workspace

    if isinstance(sys.stdin, ClosedInput):
        raise InvalidInput("standard input is closed; a chat needs a terminal, or lines to answer")
    settings = with_workspace(load_settings(), workspace)
    if sys.stdin.isatty() and sys.stdout.isatty():
        from holdfast.cli.workspace import confirm_workspace

        settings = confirm_workspace(settings)
        _chat_on_terminal(settings, wanted)
    else:
        from holdfast.cli.line_chat import answer_lines

        run(answer_lines(settings, wanted))


def _chat_on_terminal(settings: Settings, wanted: str) -> None:
    from holdfast.cli.terminal.chat import TypedAhead
    from holdfast.cli.terminal.run_chat import run_chat

    typed = TypedAhead()
    while True:
        try:
            run(run_chat(settings, wanted, typed))
        except ModelMissing as missing:
            from holdfast.cli.choose_model import choose_model

            chosen = choose_model(settings.model, str(missing))
            settings = settings.model_copy(update={"model": chosen})
        else:
            return
