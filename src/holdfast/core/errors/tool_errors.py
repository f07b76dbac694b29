"""Errors of tools. The model reads the message."""

from holdfast.core.errors.groups import InvalidInput, Refused


class ToolInvalid(InvalidInput):
    """A function or a server can't be offered as a tool."""

    def __init__(self, tool: str, problem: str) -> None:
        super().__init__(f"tool {tool!r} can't be used: {problem}")
        self.tool = tool
        self.problem = problem


class ToolArgumentsInvalid(InvalidInput):
    """The model's arguments don't fit the tool's schema."""

    def __init__(self, tool: str, problem: str) -> None:
        super().__init__(f"the arguments of {tool} can't be used: {problem}")
        self.tool = tool


class ToolFailed(Refused):
    """A tool could not do its work; the message says why."""
