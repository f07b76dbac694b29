"""`holdfast ask`: one question, one answer. Made for pipes."""

import asyncio
import json
import sys
from contextlib import aclosing
from typing import Annotated

from cyclopts import Parameter

from holdfast.core.errors import InvalidInput


def ask(
    *words: str,
    session: Annotated[str, Parameter(name=["--session", "-s"])] = "",
    resume: Annotated[bool, Parameter(name=["--continue", "-c"], negative="")] = False,
    stdin: Annotated[bool, Parameter(name="--stdin", negative="")] = False,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Ask one question and print the answer. Text on standard input is added to the question.

    Parameters
    ----------
    words
        The question.
    session
        The conversation to ask in: its id, the end of it, or its number in `holdfast sessions`.
    resume
        Ask in the last conversation.
    stdin
        Wait for standard input, however long it takes. Without, a pipe that stays empty for 3 s is left out.
    as_json
        Print what happens as lines of JSON, one event each.

    """
    said = " ".join(words).strip()
    text = "\n\n".join(part for part in (said, _piped(wait=stdin or not said)) if part)
    if not text:
        raise InvalidInput('ask needs a question: holdfast ask "…", or text on standard input')
    asyncio.run(_ask(text, session or ("1" if resume else ""), as_json))


def _piped(*, wait: bool) -> str:
    from holdfast.cli.standard_input import (
        FIRST_WORD_SECONDS,
        LEFT_OUT,
        is_piped,
        read_text,
        something_comes,
    )

    if not is_piped():
        return ""
    if not wait and not something_comes(FIRST_WORD_SECONDS):
        sys.stderr.write(f"{LEFT_OUT}\n")
        return ""
    return read_text()


async def _ask(text: str, wanted: str, as_json: bool) -> None:
    from holdfast.cli.finding import found_by
    from holdfast.cli.lines import SOURCE, answer, notices, say
    from holdfast.cli.one_turn import TurnUnsuccessful, turn_of
    from holdfast.core.events import TurnFailed
    from holdfast.wiring import load_settings
    from holdfast.wiring.leaving import host_run

    settings = load_settings()
    async with host_run(settings, source=SOURCE, say=say) as (host, leaving):
        notices(host)
        session_id = await found_by(host, wanted) if wanted else await host.new_session()
        if not as_json:
            await answer(host, session_id, text, leaving)
        else:
            async with aclosing(turn_of(host, session_id, text, leaving)) as events:
                async for event in events:
                    sys.stdout.write(json.dumps(event.to_json()) + "\n")
                    sys.stdout.flush()
                    if isinstance(event, TurnFailed):
                        raise TurnUnsuccessful(event)
    leaving.raise_signal()
