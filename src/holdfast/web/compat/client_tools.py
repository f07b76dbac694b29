"""Reads what a client of `/v1` asks for beside its messages: its tools, the form of the answer, sampling.

A client's tools are not run here: a call of one is handed over in the answer, and its result comes back in
the next request. Chat completions and responses name these things differently; `ClientRequest` is the same.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from holdfast.agent.client_request import ClientRequest
from holdfast.agent.result_form import ResultForm
from holdfast.core.errors import ResultTypeInvalid
from holdfast.models.contract import ToolSchema
from holdfast.web.bodies import LenientBody
from holdfast.web.problems import ProblemRaised

TOOLS_HEADER, MEMORY_HEADER = "x-holdfast-tools", "x-holdfast-memory"
PASSED_ON = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "stop",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "reasoning_effort",
    "verbosity",
    "parallel_tool_calls",
)
"""What goes on to the model as it is; servers refuse or ignore what they don't know."""
MOST_TOOLS = 500
ANY_OBJECT: Mapping[str, Any] = {"type": "object", "properties": {}}
ToolName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
Share = Annotated[float, Field(ge=0, le=1)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
Tokens = Annotated[int, Field(ge=1)]


class FunctionBody(LenientBody):
    name: ToolName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ToolBody(LenientBody):
    """A tool of a chat completion (`function`) or of a response (the same keys, beside `type`)."""

    type: str
    function: FunctionBody | None = None


class SamplingBody(LenientBody):
    """What both kinds of requests have; it goes on to the model where the model takes it."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Share | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None
    min_p: Share | None = None
    seed: int | None = None
    stop: str | Annotated[list[str], Field(max_length=16)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    tools: Annotated[list[ToolBody], Field(max_length=MOST_TOOLS)] | None = Field(
        default=None, description="tools that the client runs: their calls are handed over in the answer"
    )
    parallel_tool_calls: bool | None = None


def refusal(param: str, detail: str, next_: str) -> ProblemRaised:
    return ProblemRaised(400, f"unsupported_{param}", detail, next_)


def client_request(given: Mapping[str, Any], headers: Mapping[str, str]) -> ClientRequest:
    """What the request asks for. Raises what this server can't do, by its name."""
    if given.get("functions") or given.get("function_call"):
        raise refusal("functions", "`functions` is the old name.", "Send `tools` and `tool_choice`.")
    if given.get("n") not in (None, 1):
        raise refusal("n", "this server gives one answer to a message.", "Leave out `n`.")
    tools = tuple(_tool(each) for each in given.get("tools") or ())
    if len({tool.name for tool in tools}) < len(tools):
        raise refusal("tools", "two tools have the same name.", "Give each tool a name of its own.")
    choice = _tool_choice(given.get("tool_choice"), tools)
    wanted = given.get("response_format") or (given.get("text") or {}).get("format")
    schema, response_format = _format(wanted)
    options = {name: given[name] for name in PASSED_ON if given.get(name) is not None}
    effort = (given.get("reasoning") or {}).get("effort")
    verbosity = (given.get("text") or {}).get("verbosity")
    extra = {
        "tool_choice": None if choice == "auto" else choice,
        "response_format": response_format,
        "reasoning_effort": effort,
        "verbosity": verbosity,
    }
    own = switch(headers, TOOLS_HEADER)
    return ClientRequest(
        tools=() if choice == "none" else tools,
        own_tools=not tools if own is None else own,
        one_call=given.get("parallel_tool_calls") is False,
        schema=schema,
        max_tokens=_max_tokens(given),
        options=options | {name: value for name, value in extra.items() if value not in (None, "none")},
    )


def switch(headers: Mapping[str, str], name: str) -> bool | None:
    """A header that is `on` or `off`; None when it is not there."""
    said = headers.get(name)
    if said is None:
        return None
    if said.strip().lower() not in ("on", "off"):
        raise refusal("header", f"the header {name} is on or off, not {said[:40]!r}.", "Correct it.")
    return said.strip().lower() == "on"


def _max_tokens(given: Mapping[str, Any]) -> int | None:
    names = ("max_completion_tokens", "max_output_tokens", "max_tokens")
    return next((given[name] for name in names if given.get(name) is not None), None)


def _tool(given: Mapping[str, Any]) -> ToolSchema:
    if given["type"] != "function":
        raise refusal(
            "tools",
            f"a tool of type {given['type'][:40]!r} can't be handed to its client.",
            "Send tools of type `function`; MCP servers give the agent more of its own.",
        )
    function = given.get("function") or given
    try:
        checked = FunctionBody.model_validate(function)
    except ValueError:
        raise refusal(
            "tools",
            f"a tool has no usable name: {str(function.get('name'))[:80]!r}.",
            "Name it with up to 64 letters, digits, `_` and `-`.",
        ) from None
    parameters = checked.parameters or ANY_OBJECT
    return ToolSchema(checked.name, checked.description or "", parameters, strict=bool(checked.strict))


def _tool_choice(given: object, tools: tuple[ToolSchema, ...]) -> str | dict[str, Any]:
    """OpenAI's `tool_choice` in the shape of a chat completion."""
    if given in (None, "auto", "none"):
        return str(given or "auto")
    if not tools:
        raise refusal("tool_choice", "there is no tool to choose.", "Send `tools`, or leave it out.")
    if given in ("required", "any"):
        return "required"
    if isinstance(given, Mapping):
        name = given.get("name") or (given.get("function") or {}).get("name")
        if given.get("type") == "function" and name in {tool.name for tool in tools}:
            return {"type": "function", "function": {"name": name}}
    raise refusal(
        "tool_choice",
        f"no tool is chosen by {str(given)[:80]!r}.",
        "Send auto, none, required, or the name of one of the tools.",
    )


def _format(given: object) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """The schema that the answer must fit, and the format as a model's server takes it."""
    if not isinstance(given, Mapping) or given.get("type", "text") == "text":
        return None, None
    if given["type"] == "json_object":
        return ANY_OBJECT, {"type": "json_object"}
    if given["type"] != "json_schema":
        raise refusal(
            "format",
            f"there is no format {str(given['type'])[:40]!r}.",
            "Send text, json_object or json_schema.",
        )
    inner = given.get("json_schema")
    named = inner if isinstance(inner, Mapping) else given
    schema = named.get("schema") or ANY_OBJECT
    try:
        ResultForm(schema)
    except ResultTypeInvalid as problem:
        raise refusal("format", f"the schema can't be used: {problem}.", "Correct the schema.") from None
    kept = {key: named[key] for key in ("name", "description", "strict") if named.get(key) is not None}
    return schema, {"type": "json_schema", "json_schema": {"name": "answer", **kept, "schema": schema}}
