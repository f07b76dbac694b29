"""Makes a JSON schema from a function's signature, and checks a model's arguments against it.

`parse_arguments` turns the text that a model wrote into the arguments of `Tool.run`. Its errors tell the
model what to change.
"""

import inspect
import json
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

import docstring_parser
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from holdfast.core.errors import ToolArgumentsInvalid, ToolInvalid
from holdfast.tools.contract import Tool, ToolContext

MAX_PROBLEMS = 5
BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class _Untitled(GenerateJsonSchema):
    """A schema without titles: a title repeats the argument's name and costs tokens."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ANN401, ARG002 - as overridden
        return False


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a function: the model's arguments and, optionally, the context of the call."""

    description: str
    model: type[BaseModel]
    context: str | None
    """The name of the parameter that gets the `ToolContext`."""

    def schema(self) -> dict[str, Any]:
        """The arguments as JSON schema."""
        schema = self.model.model_json_schema(schema_generator=_Untitled)
        schema.pop("title", None)
        return schema

    def check(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments for the function, with defaults filled in."""
        try:
            checked = self.model.model_validate(dict(arguments))
        except ValidationError as cause:
            raise ToolArgumentsInvalid(tool, _problems(cause, self.model)) from None
        return {
            field.alias or name: getattr(checked, name) for name, field in type(checked).model_fields.items()
        }


def read_signature(function: Callable[..., Any], tool: str) -> Signature:
    """Read a typed, documented function; raises `ToolInvalid` when it can't be offered to a model."""
    documented = docstring_parser.parse(inspect.getdoc(function) or "")
    described = {each.arg_name: each.description or "" for each in documented.params}
    said = "\n\n".join(part for part in (documented.short_description, documented.long_description) if part)
    if not said:
        raise ToolInvalid(
            tool,
            "it has no docstring, and a model must read what it does: write one below its `def`",
        )
    fields: dict[str, Any] = {}
    context = None
    for name, parameter, hint in _parameters(function, tool):
        if _bare(hint) is ToolContext:
            context = name
            continue
        # The prefix allows arguments with names such as `schema` or `_id`.
        fields[f"argument_{name}"] = (hint, _field(name, parameter, hint, described.get(name, "")))
    try:
        model = create_model("Arguments", __config__=ConfigDict(extra="forbid"), **fields)
        signature = Signature(said, model, context)
        signature.schema()
    except (PydanticUserError, TypeError) as cause:
        raise ToolInvalid(tool, f"its arguments have no JSON schema: {cause}") from cause
    return signature


def _parameters(function: Callable[..., Any], tool: str) -> list[tuple[str, inspect.Parameter, Any]]:
    try:
        parameters = inspect.signature(function).parameters
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, ValueError) as cause:
        raise ToolInvalid(tool, f"its signature can't be read: {cause}") from cause
    for name, parameter in parameters.items():
        if parameter.kind not in BY_NAME:
            raise ToolInvalid(tool, f"{parameter} can't be given by name, as a model gives it")
        if name not in hints:
            raise ToolInvalid(
                tool, f"the argument {name!r} has no type: write {name}: str, or the type that fits"
            )
        if isinstance(parameter.default, FieldInfo):
            raise ToolInvalid(tool, f"write {name}: Annotated[…, Field(…)] and a plain default")
    return [(name, parameter, hints[name]) for name, parameter in parameters.items()]


def _field(name: str, parameter: inspect.Parameter, hint: Any, said: str) -> Any:  # noqa: ANN401
    known: dict[str, Any] = {"alias": name}
    own = any(isinstance(each, FieldInfo) and each.description for each in get_args(hint)[1:])
    if said and not (get_origin(hint) is Annotated and own):
        known["description"] = " ".join(said.split())
    if parameter.default is not inspect.Parameter.empty:
        known["default"] = parameter.default
    return Field(**known)


def _bare(hint: Any) -> Any:  # noqa: ANN401 - any annotation
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _problems(cause: ValidationError, model: type[BaseModel]) -> str:
    taken = ", ".join(field.alias or name for name, field in model.model_fields.items()) or "none"
    said = []
    for each in cause.errors(include_url=False, include_context=False)[:MAX_PROBLEMS]:
        place = ".".join(map(str, each["loc"])) or "arguments"
        match each["type"]:
            case "missing":
                said.append(f"{place} is missing")
            case "extra_forbidden":
                said.append(f"there is no argument {place} (it takes: {taken})")
            case _:
                said.append(f"{place}: {each['msg']}, not {each['input']!r:.80}")
    rest = cause.error_count() - len(said)
    return "; ".join(said) + (f"; and {rest} more" if rest > 0 else "")


def parse_arguments(tool: Tool, text: str) -> dict[str, Any]:
    """Turn the JSON text that a model wrote into arguments for `tool.run`; raises `ToolArgumentsInvalid`."""
    try:
        given = json.loads(text) if text.strip() else {}
    except json.JSONDecodeError as cause:
        end = " The text ends too early: it may have been cut off." if cause.pos >= len(text.rstrip()) else ""
        near = text[max(0, cause.pos - 20) : cause.pos + 20]
        raise ToolArgumentsInvalid(
            tool.name,
            f"they are not JSON: {cause.msg} at character {cause.pos}, near {near!r}.{end} "
            "Send one JSON object.",
        ) from None
    except (ValueError, RecursionError) as cause:
        raise ToolArgumentsInvalid(tool.name, f"they are not usable JSON: {cause}") from None
    if not isinstance(given, dict):
        raise ToolArgumentsInvalid(
            tool.name, f"they are a JSON {type(given).__name__}, not an object of named arguments"
        )
    return tool.check(given)
