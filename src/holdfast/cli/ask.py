"""`holdfast ask`: one question, one answer. Made for pipes."""

import json
import sys
from contextlib import aclosing
from typing import Annotated

from cyclopts import Parameter

from holdfast.cli.standard_input import piped_text
from holdfast.core.errors import InvalidInput
from holdfast.process import run


def ask(
    *words: str,
    session: Annotated[str, Parameter(name=["--session", "-s"])] = "",
    resume: Annotated[bool, Parameter(name=["--continue", "-c"], negative="")] = False,
    stdin: Annotated[bool, Parameter(name="--stdin", negative="")] = False,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
    workspace: Annotated[str, Parameter(name="--workspace")] = "",
) -> None:
    """Ask one question and print the answer. Text on standard input is added to the question.

    Parameters
    ----------
    words
        The question. @FILE in it sends a text, a picture or a document with it.
    session
        The conversation to ask in: its id, the end of it, or its number in `holdfast sessions`.
    resume
        Ask in the last conversation.
    stdin
        Wait for standard input without a limit. By default a pipe that stays empty for 3 s is ignored.
    as_json
        Print the events of the turn as lines of JSON.
    workspace
        The folder to work in; by default the current folder.

    """
    said = " ".join(words).strip()
    text = "\n\n".join(part for part in (said, piped_text(wait=stdin or not said)) if part)
    if not text:
        raise InvalidInput('ask needs a question: holdfast ask "…", or text on standard input')
    run(_ask(text, session or ("1" if resume else ""), as_json, workspace))


async def _ask(text: str, wanted: str, as_json: bool, workspace: str) -> None:
    from holdfast.cli.attached_files import with_named_files
    from holdfast.cli.line_chat import SOURCE, answer, notices, say, turn_events
    from holdfast.cli.session_lookup import find_on_host
    from holdfast.core.events import TurnFailed
    from holdfast.host import turn_error
    from holdfast.wiring import load_settings
    from holdfast.wiring.graceful_stop import open_host
    from holdfast.wiring.workspace import with_workspace, workspace_of

    settings = with_workspace(load_settings(), workspace)
    # Before a conversation begins.
    message = await with_named_files(text, workspace_of(settings).folder, say)
    async with open_host(settings, source=SOURCE, say=say, attended=False) as (host, leaving):
        notices(host)
        session_id = await find_on_host(host, wanted) if wanted else await host.new_session()
        if not as_json:
            await answer(host, session_id, message, leaving)
        else:
            async with aclosing(await turn_events(host, session_id, message, leaving)) as events:
                async for event in events:
                    sys.stdout.write(json.dumps(event.to_json()) + "\n")
                    sys.stdout.flush()
                    if isinstance(event, TurnFailed):
                        raise turn_error(event)
    leaving.raise_signal()
