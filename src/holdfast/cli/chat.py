"""`holdfast chat`: talk with the agent on this terminal, or line by line where there is none."""

from typing import Annotated

from cyclopts import Parameter

from holdfast.cli.chatting import start_chat


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
    start_chat(session or ("1" if resume else ""))
