"""`AnthropicNative`: Anthropic's own API, with prompt caching, thinking and tool use.

Needs the extra `anthropic`. Read `contract.py` first; `anthropic_messages.py` makes the request,
`anthropic_events.py` reads the answer, `failures.py` names what goes wrong.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from holdfast.core.contract import Clock
from holdfast.core.errors import ModelFailure, ModelMissing
from holdfast.models.anthropic_events import EventReader
from holdfast.models.anthropic_messages import anthropic_request
from holdfast.models.client_model import ClientModel
from holdfast.models.completeness import Completeness
from holdfast.models.contract import ModelPiece, ModelRequest, ModelTraits
from holdfast.models.failures import STATUS_BAD_REQUEST, failure, quotable, server_said, unanswered
from holdfast.models.server import Server

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, AsyncStream
    from anthropic.types import RawMessageStreamEvent

MOST_OUTPUT = 32_000
"""The API wants a bound for the answer; every current model can write this much."""


class AnthropicNative(ClientModel["AsyncAnthropic"]):
    """A model behind Anthropic's API. `thinking` is sent as it is; None leaves it to the model's default."""

    def __init__(
        self,
        server: Server,
        traits: ModelTraits,
        *,
        thinking: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(server, traits, clock=clock)
        self._thinking = thinking

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        """The answer, piece by piece."""
        client = await self._opened()
        import anthropic
        import httpx2

        reader, answer = EventReader(self._traits.name), Completeness(self._traits.name)
        try:
            async with await self._sent(client, request) as stream:
                events = cast("AsyncGenerator[RawMessageStreamEvent, None]", aiter(stream))
                async with aclosing(events):
                    async for event in events:
                        for piece in reader.pieces(event):
                            yield answer.see(piece)
        except (anthropic.AnthropicError, httpx2.HTTPError, ValueError) as cause:
            # Once the model has said that it is done, a broken connection takes nothing away.
            if not reader.ended:
                raise self._named(cause, began=reader.began) from quotable(cause, self._server.key)
        yield answer.see(reader.finished())

    async def _sent(
        self, client: "AsyncAnthropic", request: ModelRequest
    ) -> "AsyncStream[RawMessageStreamEvent]":
        body = anthropic_request(request, self._traits.name)
        if self._thinking is not None:
            body["thinking"] = dict(self._thinking)
        create = cast(Any, client.messages.create)
        sent = await create(
            model=self._traits.name,
            max_tokens=request.max_output_tokens or min(MOST_OUTPUT, self._traits.context_window // 2),
            stream=True,
            **body,
        )
        return cast("AsyncStream[RawMessageStreamEvent]", sent)

    def _new_client(self) -> "AsyncAnthropic":
        try:
            from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient, Timeout
        except ImportError as cause:
            raise ModelMissing(missing_library(self._traits.name)) from cause
        server = self._server
        timeout = Timeout(server.stall_seconds, connect=server.connect_seconds)
        return AsyncAnthropic(
            base_url=server.base_url.rstrip("/").removesuffix("/v1"),
            api_key=server.key.reveal() if server.key else "none",
            max_retries=0,
            timeout=timeout,
            http_client=DefaultAsyncHttpxClient(timeout=timeout, trust_env=not server.is_local),
        )

    async def _end(self, client: "AsyncAnthropic") -> None:
        await client.close()

    def _named(self, cause: Exception, *, began: bool) -> ModelFailure:
        """The named error for what the SDK raised."""
        import anthropic

        model, server = self._traits.name, self._server
        if isinstance(cause, anthropic.APIConnectionError) or not isinstance(cause, anthropic.APIError):
            return unanswered(model, server, cause, began=began)
        status = getattr(cause, "status_code", 0)
        within = status < STATUS_BAD_REQUEST  # the stream itself had begun well
        headers = {} if within else cast("anthropic.APIStatusError", cause).response.headers
        now = self._clock.now()
        said = server_said(None if within else status, cause.body, headers, now=now, key=server.key)
        return failure(model, said, began=began)


def missing_library(model: str) -> str:
    """What to do without the SDK."""
    return (
        f"{model} is asked through Anthropic's API, and the library for it is not installed. "
        "Run: pip install 'holdfast[anthropic]'"
    )
