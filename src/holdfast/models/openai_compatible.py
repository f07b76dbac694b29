"""`OpenAICompatible`: streaming chat completions from any server that speaks OpenAI's protocol.

OpenAI, OpenRouter, vLLM, Ollama, llama.cpp and their like, by their `base_url`. Read `contract.py` first;
`openai_chunks.py` reads the answer, `failures.py` names what goes wrong, `patience.py` tries again.
"""

import json
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from holdfast.core.contract import Message
from holdfast.core.errors import RequestRejected
from holdfast.models.contract import ModelPiece, ModelRequest, ToolSchema
from holdfast.models.event_data import EventData
from holdfast.models.failures import failure, raise_named, server_said
from holdfast.models.openai_chunks import ChunkReader, joined
from holdfast.models.sdk_model import SdkModel

if TYPE_CHECKING:
    from openai import AsyncOpenAI, AsyncStream

OPENAI_HOST = "api.openai.com"
DONE = "[DONE]"
NO_WORDS = "An error occurred during streaming"


class OpenAICompatible(SdkModel["AsyncOpenAI"]):
    """A model behind an OpenAI-compatible server."""

    async def _pieces(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        client = await self._opened()
        import httpx2
        import openai

        reader = ChunkReader(self._traits.name)
        try:
            async with await self._sent(client, request) as stream:
                await self._require_events(stream)
                async with aclosing(chunks_of(stream)) as arrivals:
                    async for chunks in arrivals:
                        # What came together goes on together: a busy program does less for each token.
                        for piece in joined(piece for chunk in chunks for piece in reader.pieces(chunk)):
                            yield piece
        except (openai.OpenAIError, httpx2.HTTPError, ValueError) as cause:
            # Once the model has said that it is done, a broken connection takes nothing away.
            if not reader.ended:
                now = self._clock.now()
                raise_named(openai, self._traits.name, self._server, cause, began=reader.began, now=now)
        yield reader.finished()

    async def _sent(self, client: "AsyncOpenAI", request: ModelRequest) -> "AsyncStream[object]":
        """Asked for as plain JSON: the SDK's types for each token cost more than all the rest."""
        from openai import AsyncStream, Omit

        # Without a key nothing is sent in its place; and only OpenAI is told who the organisation is.
        left_out = [] if self._server.key else ["Authorization"]
        if self._server.host != OPENAI_HOST:
            left_out += ["OpenAI-Organization", "OpenAI-Project"]
        return await client.post(
            "/chat/completions",
            cast_to=object,
            body=self._body(request),
            options={"headers": dict.fromkeys(left_out, Omit())},
            stream=True,
            stream_cls=AsyncStream[object],
        )

    async def _require_events(self, stream: "AsyncStream[object]") -> None:
        kind = stream.response.headers.get("content-type", "")
        if not kind.startswith(("text/html", "application/json")):
            return
        body = (await stream.response.aread()).decode(errors="replace")
        said = server_said(
            None,
            json.loads(body) if kind.startswith("application/json") else body,
            {},
            now=self._clock.now(),
            key=self._server.key,
        )
        if said.described:
            raise failure(self._traits.name, said)
        raise RequestRejected(
            self._traits.name,
            f"{self._server.shown} answered with {kind} instead of a stream of events; check base_url",
        )

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._traits.name,
            "messages": chat_messages(request),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            body["tools"] = [_function(tool) for tool in request.tools]
        official = self._server.host == OPENAI_HOST
        if request.max_output_tokens is not None:
            # OpenAI's newer models refuse the old name, and other servers don't know the new one.
            body["max_completion_tokens" if official else "max_tokens"] = request.max_output_tokens
        if official and request.conversation:
            body["prompt_cache_key"] = request.conversation
        return body

    def _new_client(self) -> "AsyncOpenAI":
        from urllib.request import getproxies

        from openai import AsyncOpenAI, DefaultAsyncHttpx2Client, Timeout

        from holdfast.models.spread import Spread

        server = self._server
        timeout = Timeout(server.stall_seconds, connect=server.connect_seconds)
        # A proxy is used by httpx's own transport alone.
        spread = Spread(trust_env=not server.is_local) if server.is_local or not getproxies() else None
        return AsyncOpenAI(
            base_url=server.base_url,
            api_key=server.key.reveal() if server.key else "none",
            max_retries=0,
            timeout=timeout,
            http_client=DefaultAsyncHttpx2Client(
                timeout=timeout, trust_env=not server.is_local, transport=spread
            ),
        )


async def chunks_of(stream: "AsyncStream[object]") -> AsyncGenerator[list[object], None]:
    """The chunks of an answer, those that came from the network together at a time.

    Raises what the SDK's own reader raises, after the chunks that came before.
    """
    import httpx2
    from openai import APIConnectionError, APITimeoutError

    events, request = EventData(), cast(Any, stream.response.request)
    try:
        async with aclosing(stream.response.aiter_bytes()) as content:
            async for arrived in content:
                for chunks in _checked(events.feed(arrived), request):
                    yield chunks
    except httpx2.TimeoutException as cause:
        raise APITimeoutError(request=request) from cause
    except httpx2.HTTPError as cause:
        raise APIConnectionError(request=request) from cause
    for chunks in _checked(events.end(), request):
        yield chunks


def _checked(arrived: Sequence[str], request: Any) -> Iterator[list[object]]:  # noqa: ANN401 - httpx's
    """The chunks that are whole and no errors; then the first that isn't is raised."""
    from openai import APIError

    chunks: list[object] = []
    for data in arrived:
        if data.startswith(DONE):
            continue
        try:
            chunk = json.loads(data)
        except ValueError:
            yield chunks
            raise
        if isinstance(chunk, dict) and chunk.get("error"):
            yield chunks
            error = chunk["error"]
            said = error.get("message") if isinstance(error, dict) else None
            raise APIError(said if isinstance(said, str) and said else NO_WORDS, request=request, body=error)
        chunks.append(chunk)
    if chunks:
        yield chunks


def chat_messages(request: ModelRequest) -> list[dict[str, Any]]:
    """The system text and the transcript, as a server takes them."""
    system: list[dict[str, Any]] = [{"role": "system", "content": request.system}] if request.system else []
    return system + [_sendable(message) for message in request.messages]


def _sendable(message: Message) -> dict[str, Any]:
    return {key: value for key, value in message.items() if key != "holdfast"}


def _function(tool: ToolSchema) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": dict(tool.parameters),
        },
    }
