"""The tool `ask_user`: the agent asks the person a question."""

from typing import Annotated

from pydantic import Field

from holdfast.tools.contract import ToolContext, ToolResult
from holdfast.tools.decorator import tool

MAX_CHOICES = 10


@tool(timeout=None, changes=False)
async def ask_user(
    question: Annotated[str, Field(min_length=1)],
    context: ToolContext,
    choices: Annotated[list[str], Field(max_length=MAX_CHOICES)] = [],  # noqa: B006 - never changed
) -> ToolResult:
    """Ask the person a question and wait for the answer. Use it when you can't go on without their word.

    Args:
        question: the question, understandable by itself
        choices: answers to choose from; the person may still answer otherwise

    """
    answer = await context.person.answer(question, choices)
    if answer is None:
        return ToolResult(
            "No answer came in time. Go on with what is safe to assume, or end your turn and say what "
            "you need.",
            ok=False,
        )
    return ToolResult(f"The person answered: {answer}")
