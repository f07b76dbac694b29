"""`ResultForm`: the form that a turn's answer must have, a pydantic model or a JSON schema.

The model gives its answer by calling a tool whose arguments are the form; a plain answer that is such JSON
counts as well. An answer that does not fit is refused with the reason, and the model is asked again, a few
times. The turn ends with the first answer that fits, and its JSON is the turn's final response.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from holdfast.core.contract import Message
from holdfast.core.errors import InvalidInput, ResultDoesNotFit, ResultTypeInvalid, ToolArgumentsInvalid
from holdfast.core.messages import HOLDFAST_KEY, text_of
from holdfast.models.contract import ModelTraits
from holdfast.tools.contract import Tool, ToolContext, ToolResult

TOOL = "final_result"
ATTEMPTS = 3
DESCRIPTION = (
    "Give the final answer to the person's message in this form, and in no other way. Call it once, when "
    "everything else is done."
)
FENCE = re.compile(r"\s*```(?:json)?\s*\n(.*)\n```\s*", re.DOTALL)
RIGHT = (
    "result_type is a class derived from pydantic.BaseModel, or a JSON schema as a dict with "
    '"type": "object", not {!r:.80}'
)


class ResultForm:
    """The form of one turn's answer, and the answer once it fits. For one turn."""

    def __init__(self, result_type: object, *, by_tool: bool = True) -> None:
        """Without `by_tool` the model's server knows the form: the answer is its text, and is checked."""
        self.by_tool = by_tool
        self._model: type[BaseModel] | None = None
        self._validator: Any = None
        if isinstance(result_type, type) and issubclass(result_type, BaseModel):
            self._model, self.name = result_type, result_type.__name__
            self.schema: Mapping[str, Any] = result_type.model_json_schema()
        elif isinstance(result_type, Mapping) and result_type.get("type") == "object":
            self.schema, self._validator = result_type, _validator(result_type)
            self.name = str(result_type.get("title") or "result of the given JSON schema")
        else:
            raise ResultTypeInvalid(RIGHT.format(result_type))
        self.value: Any = None
        self._answer: Message | None = None
        self._refused = 0
        self._problem = ""

    def require_tools(self, traits: ModelTraits) -> None:
        """Raise when the model can't give a result in any form."""
        if not traits.calls_tools:
            raise InvalidInput(
                f"{traits.name} calls no tools, and result_type needs a model that does; nothing was stored"
            )

    def tool(self) -> Tool:
        """The tool by which the model gives its answer."""
        return Tool(TOOL, DESCRIPTION, self.schema, self._accept, changes=False, check=self._check)

    def answer(self) -> Message | None:
        """The answer that has just been given; None when there is none. Raises after too many others."""
        given, self._answer = self._answer, None
        if given is None:
            self._require_patience()
        return given

    def objection(self, message: Message) -> Message | None:
        """What to tell the model about an answer in plain text; None when it fits."""
        text = text_of(message)
        fenced = FENCE.fullmatch(text)
        try:
            given = json.loads(fenced[1] if fenced else text)
            self.value = self._read(given if isinstance(given, dict) else {})
        except (ValueError, ToolArgumentsInvalid) as problem:
            self._refuse(str(problem) if isinstance(problem, ToolArgumentsInvalid) else "it is no JSON")
        else:
            self._answer = {**message, "content": json.dumps(given, ensure_ascii=False)}
            return None
        self._require_patience()
        again = (
            f"Call {TOOL} with the answer." if self.by_tool else "Answer again, with nothing but the JSON."
        )
        said = f"That answer can't be used: {self._problem}. {again}"
        return cast("Message", {"role": "user", "content": said, HOLDFAST_KEY: {"asked_again": True}})

    def require_value(self, final_response: str) -> None:
        """Raise when the turn ended without a result, at one of its limits."""
        if self.value is None:
            raise ResultDoesNotFit(self.name, self._refused, f"the turn ended first: {final_response}")

    async def _accept(self, _: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        self.value = self._read(arguments)
        self._answer = {"role": "assistant", "content": json.dumps(arguments, ensure_ascii=False)}
        return ToolResult("Taken.")

    def _check(self, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            self._read(arguments)
        except ToolArgumentsInvalid as problem:
            self._refuse(str(problem))
            raise
        return arguments

    def _read(self, given: dict[str, Any]) -> Any:  # noqa: ANN401 - the program's own type
        if self._model is None:
            problems = [
                f"{each.json_path}: {each.message:.200}" for each in self._validator.iter_errors(given)
            ]
        else:
            try:
                return self._model.model_validate(given)
            except ValidationError as cause:
                problems = [
                    f"{'.'.join(map(str, each['loc'])) or 'it'}: {each['msg']}"
                    for each in cause.errors(include_url=False, include_context=False, include_input=False)
                ]
        if problems:
            raise ToolArgumentsInvalid(TOOL, "; ".join(problems[:5]))
        return given

    def _refuse(self, problem: str) -> None:
        self._refused += 1
        self._problem = problem

    def _require_patience(self) -> None:
        if self._refused >= ATTEMPTS:
            raise ResultDoesNotFit(self.name, self._refused, self._problem)


def _validator(schema: Mapping[str, Any]) -> Any:  # noqa: ANN401 - jsonschema says no types
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    kind = validator_for(schema)
    try:
        kind.check_schema(schema)
    except SchemaError as cause:
        raise ResultTypeInvalid(f"result_type is no JSON schema: {cause.message:.200}") from cause
    return kind(schema)
