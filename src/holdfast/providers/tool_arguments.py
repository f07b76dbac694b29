"""`ToolArguments`: the tools of providers, each a pydantic model of its arguments that runs the call."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

RequiredText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class ToolArguments(BaseModel):
    """The arguments of a tool call. The docstring of a subclass is the description that the model reads."""

    model_config = ConfigDict(extra="forbid")

    @abstractmethod
    def run(self, memory: Any) -> dict[str, Any] | str:  # noqa: ANN401 - the provider of the tool
        """Run the call on its provider; returns the answer as JSON or as text."""


def function_schemas(tools: Mapping[str, type[ToolArguments]]) -> list[dict[str, Any]]:
    """The tools as OpenAI function schemas."""
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": " ".join((arguments.__doc__ or "").split()),
                "parameters": arguments.model_json_schema(),
            },
        }
        for name, arguments in tools.items()
    ]


def validation_message(error: ValidationError) -> str:
    """The validation errors as a message for the model."""
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
