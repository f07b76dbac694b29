"""`holdfast chat`: talk with the agent on this terminal; without a terminal, line by line."""

from typing import Annotated

from cyclopts import Parameter

from holdfast.cli.start_chat import start_chat


def chat(
    *,
    session: Annotated[str, Parameter(name=["--session", "-s"])] = "",
    resume: Annotated[bool, Parameter(name=["--continue", "-c"], negative="")] = False,
    workspace: Annotated[str, Parameter(name="--workspace")] = "",
) -> None:
    """Talk with the agent. Without a terminal, each line of standard input is answered.

    Parameters
    ----------
    session
        The conversation to go on with: its id, the end of it, or its number in `holdfast sessions`.
    resume
        Go on with the last conversation.
    workspace
        The folder to work in; by default the current folder.

    """
    start_chat(session or ("1" if resume else ""), workspace)
