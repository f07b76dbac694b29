"""What the tools of providers share: arguments as models, their schemas, and what a model got wrong."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError


class Arguments(BaseModel):
    """A tool's arguments; the docstring of the class is what the model reads about the tool."""

    model_config = ConfigDict(extra="forbid")


def function_schemas(tools: Mapping[str, type[Arguments]]) -> list[dict[str, Any]]:
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


def mistakes(error: ValidationError) -> str:
    """What is wrong with the arguments, in words for the model."""
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
