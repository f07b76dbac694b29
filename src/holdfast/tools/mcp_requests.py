"""What an MCP server asks of its client: a form for the person, an answer of the model, the workspace.

Elicitation becomes questions to the person, sampling an approval and one request to the model. A server that
asks while calls of several conversations run is refused: it does not say which of them it means.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import HoldfastError
from holdfast.core.messages import storable
from holdfast.tools.contract import ApprovalRequest, ToolContext, refusal
from holdfast.tools.open_questions import NO_ANSWER

if TYPE_CHECKING:
    from mcp.client import ClientRequestContext
    from mcp_types import (
        CreateMessageRequestParams,
        CreateMessageResult,
        ElicitRequestParams,
        ElicitResult,
        ErrorData,
        ListRootsResult,
    )

DECLINE, SKIP = "decline", "skip"
TRIES = 3
"""How often a field is asked for when its answers don't fit."""
MAX_FIELDS = 20
MAX_WORDS = 2_000
"""Characters of a server's words that are shown in one question."""
MAX_CHOICES = 50
"""How many choices are shown; others may be typed."""
MAX_SAMPLED = 100_000
"""Characters that a server may have the model read: a person sees all of it before."""

Complete = Callable[[str, str, str], Awaitable[tuple[str, str]]]
"""`await complete(session_id, system, text)` gives the model's answer and the model's name."""


@dataclass(frozen=True, slots=True)
class ActiveCall:
    """A call that runs. Its time does not count while the person is asked."""

    context: ToolContext
    limit: asyncio.Timeout
    seconds: float

    @contextmanager
    def paused(self) -> Iterator[None]:
        self.limit.reschedule(None)
        try:
            yield
        finally:
            if not self.limit.expired():
                self.limit.reschedule(asyncio.get_running_loop().time() + self.seconds)


class McpRequests:
    """Answers the requests of one server."""

    def __init__(self, server: str, folder: Path, complete: Complete | None) -> None:
        self._server = server
        self._folder = folder
        self._complete = complete
        self._calls: list[ActiveCall] = []

    @property
    def samples(self) -> bool:
        """Whether there is a model to ask."""
        return self._complete is not None

    @contextmanager
    def during(self, call: ActiveCall) -> Iterator[None]:
        """What the server asks meanwhile, it asks for this call."""
        self._calls.append(call)
        try:
            yield
        finally:
            self._calls.remove(call)

    def _asking(self) -> ActiveCall | None:
        sessions = {(each.context.session_id, each.context.scope) for each in self._calls}
        return self._calls[-1] if len(sessions) == 1 else None

    async def roots(self, context: "ClientRequestContext") -> "ListRootsResult":  # noqa: ARG002 - the SDK's
        """The workspace."""
        from mcp_types import ListRootsResult, Root
        from pydantic import FileUrl

        return ListRootsResult(roots=[Root(uri=FileUrl(self._folder.resolve().as_uri()), name="workspace")])

    async def elicit(
        self,
        context: "ClientRequestContext",  # noqa: ARG002 - the SDK's
        params: "ElicitRequestParams",
    ) -> "ElicitResult":
        """The person's answers to a form; or whether they went to an address."""
        from mcp_types import ElicitRequestURLParams, ElicitResult

        call = self._asking()
        if call is None:
            return ElicitResult(action="cancel")
        with call.paused():
            if isinstance(params, ElicitRequestURLParams):
                asked = f"{self._server} asks you to open {_short(params.url)}\n{_short(params.message)}"
                said = await self._said(call.context, asked, ("done", DECLINE))
                return ElicitResult(action=_action(said))
            action, content = await self._form(call.context, params.message, params.requested_schema)
        return ElicitResult(action=action, content=content if action == "accept" else None)

    async def _form(
        self, context: ToolContext, message: str, schema: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        fields: Mapping[str, Any] = schema.get("properties") or {}
        asked = f"{self._server} asks: {_short(message)}"
        if not fields:
            return _action(await self._said(context, asked, ("accept", DECLINE))), {}
        content: dict[str, Any] = {}
        required = set(schema.get("required") or ())
        for name, field in list(fields.items())[:MAX_FIELDS]:
            said = await self._field(context, asked, name, field, optional=name not in required)
            if said in (None, DECLINE):
                return _action(said), {}
            if said != SKIP:
                content[name] = typed_answer(field, str(said))
        return "accept", content

    async def _field(
        self, context: ToolContext, asked: str, name: str, field: Mapping[str, Any], *, optional: bool
    ) -> str | None:
        """An answer that fits the field, or `decline` or `skip`; None when there is none."""
        name = _short(name)
        what = _short(str(field.get("description") or field.get("title") or name))
        words = f"{asked}\n{name}: {what}" if what != name else f"{asked}\n{name}"
        words += f"\n(or {DECLINE}{f', or {SKIP}' if optional else ''})"
        problem = ""
        for _ in range(TRIES):
            said = await self._said(context, f"{problem}{words}", tuple(_choices(field)[:MAX_CHOICES]))
            if said is None or said == DECLINE or (said == SKIP and optional):
                return said
            try:
                typed_answer(field, said)
            except ValueError as cause:
                problem = f"That does not fit: {cause}.\n"
            else:
                return said
        return None

    async def _said(self, context: ToolContext, question: str, choices: tuple[str, ...]) -> str | None:
        answer = await context.person.answer(storable(question), choices)
        if answer is None or answer == NO_ANSWER:
            return None
        return answer.strip()

    async def sample(
        self,
        context: "ClientRequestContext",  # noqa: ARG002 - the SDK's
        params: "CreateMessageRequestParams",
    ) -> "CreateMessageResult | ErrorData":
        """An answer of the model, when the person allows that it is asked."""
        from mcp_types import INVALID_REQUEST, CreateMessageResult, ErrorData, TextContent

        def refuse(why: str) -> ErrorData:
            return ErrorData(code=INVALID_REQUEST, message=why)

        call, complete = self._asking(), self._complete
        if call is None or complete is None:
            return refuse("no single call is running that the model could be asked for")
        blocks = [
            (each.role, part.model_dump(mode="json"))
            for each in params.messages
            for part in each.content_as_list
        ]
        if params.tools or any(part.get("type") != "text" for _, part in blocks):
            return refuse("only text can be given to the model here")
        text, system = storable("\n\n".join(_spoken(blocks))), storable(params.system_prompt or "")
        whole = f"{text}\n\n(with the instructions: {system})" if system else text
        if len(whole) > MAX_SAMPLED:
            return refuse(f"the model is given {MAX_SAMPLED:,} characters at most; it was not asked")
        with call.paused():
            wanted = ApprovalRequest(whole, f"{self._server}__sampling", f"{self._server} asks the model")
            if not await call.context.person.approve(wanted):
                return refuse(f"the model was not asked: {refusal(call.context.person)}")
            try:
                answer, model = await complete(call.context.session_id, system, text)
            except HoldfastError as cause:
                return refuse(str(cause))
        return CreateMessageResult(
            role="assistant", content=TextContent(text=answer), model=model, stop_reason="endTurn"
        )


def _short(words: str) -> str:
    return words if len(words) <= MAX_WORDS else f"{words[:MAX_WORDS]}…"


def _spoken(blocks: Iterable[tuple[str, dict[str, Any]]]) -> list[str]:
    said = [(role, str(part["text"])) for role, part in blocks]
    return [text for _, text in said] if len(said) == 1 else [f"{role}: {text}" for role, text in said]


def _action(said: str | None) -> Any:  # noqa: ANN401 - one of three words
    if said is None:
        return "cancel"
    return "decline" if said.lower() in (DECLINE, "no") else "accept"


def _choices(field: Mapping[str, Any]) -> list[str]:
    if field.get("type") == "boolean":
        return ["yes", "no"]
    titled = field.get("oneOf") or field.get("anyOf") or ()
    return [str(each) for each in field.get("enum") or [each["const"] for each in titled if "const" in each]]


def typed_answer(field: Mapping[str, Any], said: str) -> Any:  # noqa: ANN401 - as the field's type says
    """A person's words in the type of a form's field; raises `ValueError` when they don't fit."""
    choices, kind = _choices(field), field.get("type")
    if kind == "boolean":
        if said.lower() not in ("yes", "no", "true", "false"):
            raise ValueError("answer yes or no")
        return said.lower() in ("yes", "true")
    if kind == "array":
        items = field.get("items") or {}
        return [typed_answer(items, each.strip()) for each in said.split(",") if each.strip()]
    if choices and said not in choices:
        raise ValueError(f"answer one of {', '.join(choices)}")
    if kind in ("integer", "number"):
        try:
            return int(said) if kind == "integer" else float(said)
        except ValueError:
            raise ValueError("answer a number") from None
    return said
