"""Shared by the tools of providers: arguments as pydantic models, their schemas and validation errors."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError


class ToolArguments(BaseModel):
    """The arguments of a tool. The docstring of a subclass is the description that the model reads."""

    model_config = ConfigDict(extra="forbid")


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
