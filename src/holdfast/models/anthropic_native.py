"""`AnthropicNative`: Anthropic's own API, with prompt caching, thinking and tool use.

It needs the extra `anthropic`. Read `contract.py` first. `anthropic_messages.py` makes the request,
`anthropic_events.py` reads the answer, and `failures.py` turns failures into named errors.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

from holdfast.core.contract import Clock
from holdfast.core.distribution import install_command
from holdfast.core.errors import ModelFailure, ModelMissing
from holdfast.models.anthropic_events import EventReader
from holdfast.models.anthropic_messages import anthropic_request
from holdfast.models.client_model import ClientModel
from holdfast.models.completeness import Completeness
from holdfast.models.contract import ModelPiece, ModelRequest, ModelTraits
from holdfast.models.failures import connection_failure, model_failure, read_server_error, safe_cause
from holdfast.models.server import Server

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, AsyncStream
    from anthropic.types import RawMessageStreamEvent

MAX_OUTPUT_TOKENS = 32_000
"""The API requires a limit for the answer; every current model can write this much."""


class AnthropicNative(ClientModel["AsyncAnthropic"]):
    """A model of Anthropic's API. `thinking` is sent unchanged; None means the model's default."""

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
                            yield answer.check(piece)
        except (anthropic.AnthropicError, httpx2.HTTPError, ValueError) as cause:
            # When the model has already ended its answer, a broken connection does no harm.
            if not reader.ended:
                raise self._named(cause, began=reader.began) from safe_cause(cause, self._server.key)
        yield answer.check(reader.finished())

    async def _sent(
        self, client: "AsyncAnthropic", request: ModelRequest
    ) -> "AsyncStream[RawMessageStreamEvent]":
        body = anthropic_request(request, self._traits.name)
        if self._thinking is not None:
            body["thinking"] = dict(self._thinking)
        create = cast(Any, client.messages.create)
        sent = await create(
            model=self._traits.name,
            max_tokens=request.max_output_tokens or min(MAX_OUTPUT_TOKENS, self._traits.context_window // 2),
            stream=True,
            **body,
        )
        return cast("AsyncStream[RawMessageStreamEvent]", sent)

    def _new_client(self) -> "AsyncAnthropic":
        try:
            from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient, Timeout
        except ImportError as cause:
            raise ModelMissing(missing_library(self._traits.name)) from cause
        from holdfast.process.http_transport import direct_transport

        server = self._server
        timeout = Timeout(server.stall_seconds, connect=server.connect_seconds)
        remote = not server.is_local
        return AsyncAnthropic(
            base_url=server.base_url.rstrip("/").removesuffix("/v1"),
            api_key=server.key.reveal() if server.key else "none",
            max_retries=0,
            timeout=timeout,
            http_client=DefaultAsyncHttpxClient(
                timeout=timeout, trust_env=remote, transport=direct_transport(proxies=remote)
            ),
        )

    def _named(self, cause: Exception, *, began: bool) -> ModelFailure:
        """The named error for what the SDK raised."""
        import anthropic

        model, server = self._traits.name, self._server
        if isinstance(cause, anthropic.APIConnectionError) or not isinstance(cause, anthropic.APIError):
            return connection_failure(model, server, cause, began=began)
        status = getattr(cause, "status_code", 0)
        within = status < HTTPStatus.BAD_REQUEST  # the stream had begun without an error
        headers = {} if within else cast("anthropic.APIStatusError", cause).response.headers
        now = self._clock.now()
        error = read_server_error(None if within else status, cause.body, headers, now=now, key=server.key)
        return model_failure(model, error, began=began)


def missing_library(model: str) -> str:
    """The message that says how to install the SDK."""
    return (
        f"{model} needs Anthropic's API, and the library for it is not installed. "
        f"Run: {install_command('anthropic')}"
    )
