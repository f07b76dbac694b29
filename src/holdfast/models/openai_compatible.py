"""`OpenAICompatible`: streaming chat completions from any server that speaks OpenAI's protocol.

The `base_url` says which one: OpenAI, OpenRouter, vLLM, Ollama, llama.cpp and so on. Read `contract.py`
first. `post_client.py` sends the request, `openai_chunks.py` reads the answer, `failures.py` turns failures
into named errors, and `retrying_model.py` tries again.
"""

import json
import re
from collections.abc import AsyncGenerator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from holdfast.core.contract import Clock, Message
from holdfast.core.errors import ModelFailure, RequestRejected
from holdfast.models.client_model import ClientModel
from holdfast.models.completeness import Completeness
from holdfast.models.contract import ModelPiece, ModelRequest, ModelTraits, ToolSchema
from holdfast.models.failures import (
    ServerError,
    connection_failure,
    model_failure,
    read_server_error,
    safe_cause,
)
from holdfast.models.openai_chunks import ChunkReader, ErrorInStream
from holdfast.models.read_interval import ReadInterval
from holdfast.models.server import Server

if TYPE_CHECKING:
    import httpx2

    from holdfast.models.post_client import HttpxStream, PostClient
    from holdfast.models.stream_transport import Exchange

PICTURE_OF = "a picture from the result of the tool call"
SENT = frozenset({"role", "content", "tool_calls", "tool_call_id"})
"""The keys of a message that are sent: servers refuse a request with an unknown key."""
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
OPENAI_HOST = "api.openai.com"
MAX_CONNECTIONS, MAX_KEPT = 1000, 100
"""For a server behind a proxy. Without a proxy, `StreamTransport` opens as many as are needed."""


class OpenAICompatible(ClientModel["PostClient"]):
    """A model behind an OpenAI-compatible server."""

    def __init__(
        self,
        server: Server,
        traits: ModelTraits,
        *,
        clock: Clock | None = None,
        read_interval: ReadInterval | None = None,
    ) -> None:
        super().__init__(server, traits, clock=clock)
        self._read_interval = read_interval or ReadInterval()
        self._streaming = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        """The answer, piece by piece."""
        client = await self._opened()
        import httpx2

        from holdfast.models.post_client import NoEventStream

        name = self._traits.name
        reader, answer = ChunkReader(name), Completeness(name)
        self._streaming += 1
        try:
            async with client.post(self._content(request)) as incoming:
                while not reader.closed:
                    # Pieces that arrived together are passed on together, which costs less for each token.
                    pieces = reader.feed(await incoming.read())
                    self._pause_reading(incoming, reader)
                    for piece in pieces:
                        yield answer.check(piece)
                    if reader.failure is not None:
                        raise reader.failure
        except (httpx2.HTTPError, httpx2.StreamError, ValueError) as cause:
            # When the model has already ended its answer, a broken connection does no harm.
            if not reader.ended:
                broken = connection_failure(name, self._server, cause, began=reader.began)
                raise broken from safe_cause(cause, self._server.key)
        except NoEventStream as other:
            raise self._refusal(other.response) from None
        except ErrorInStream as error:
            if not reader.ended:
                raise model_failure(name, self._server_error(None, error.body), began=reader.began) from None
        finally:
            self._streaming -= 1
        yield answer.check(reader.finished())

    def _pause_reading(self, incoming: "Exchange | HttpxStream", reader: ChunkReader) -> None:
        """Wait before the next read, so that more data arrives.

        The first text and the end are not delayed.
        """
        pause = self._read_interval.pause(self._streaming)
        if pause and reader.began and not reader.ended:
            incoming.pause_reading(pause)

    def _refusal(self, answer: "httpx2.Response") -> ModelFailure:
        """The named error for an answer that is not a stream of events."""
        status = None if answer.is_success else answer.status_code
        body = answer.content.decode(errors="replace")
        error = self._server_error(status, _parsed(body), answer.headers)
        if error.described or not answer.is_success:
            return model_failure(self._traits.name, error)
        kind = answer.headers.get("content-type", "")
        return RequestRejected(
            self._traits.name,
            f"{self._server.display_url} answered with {kind} instead of a stream of events; check base_url",
        )

    def _server_error(
        self, status: int | None, body: object, headers: "httpx2.Headers | None" = None
    ) -> ServerError:
        return read_server_error(status, body, headers or {}, now=self._clock.now(), key=self._server.key)

    def _content(self, request: ModelRequest) -> bytes:
        return json.dumps(self._body(request), ensure_ascii=False, separators=(",", ":")).encode()

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._traits.name,
            "messages": chat_messages(request),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        official = self._server.host == OPENAI_HOST
        if request.max_output_tokens is not None:
            # OpenAI's newer models refuse the old name, and other servers don't know the new one.
            body["max_completion_tokens" if official else "max_tokens"] = request.max_output_tokens
        if official and request.conversation:
            body["prompt_cache_key"] = request.conversation
        if request.tools:
            body["tools"] = [{"type": "function", "function": _function(tool)} for tool in request.tools]
        return {**request.options, **body}

    def _new_client(self) -> "PostClient":
        from urllib.request import getproxies

        import httpx2

        from holdfast.models.post_client import PostClient
        from holdfast.models.stream_transport import StreamTransport

        server = self._server
        # Only httpx's own transport can use a proxy.
        direct = server.is_local or not getproxies()
        transport = (
            StreamTransport(httpx2.create_ssl_context(trust_env=not server.is_local)) if direct else None
        )
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}
        if server.key:
            headers["Authorization"] = f"Bearer {server.key.reveal()}"
        client = httpx2.AsyncClient(
            headers=headers,
            timeout=httpx2.Timeout(server.stall_seconds, connect=server.connect_seconds),
            trust_env=not server.is_local,
            transport=transport,
            follow_redirects=True,
            limits=httpx2.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_KEPT),
        )

        return PostClient(client, f"{server.base_url.rstrip('/')}/chat/completions")


def _parsed(body: str) -> object:
    """The body of an error: parsed if it is JSON, or else its text."""
    try:
        return json.loads(body)
    except ValueError:
        return body


def chat_messages(request: ModelRequest) -> list[dict[str, Any]]:
    """The system text and the transcript, as a server takes them."""
    system: list[dict[str, Any]] = [{"role": "system", "content": request.system}] if request.system else []
    return system + list(_with_result_pictures(map(_sendable, request.messages)))


def _with_result_pictures(messages: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The messages, with the pictures of tool results in a user message: the API takes only text in a result.

    It follows the last result of its step, joined to what the person said next.
    """
    pictures: list[dict[str, Any]] = []
    for message in messages:
        content = message.get("content")
        if message["role"] == "tool" and isinstance(content, list):
            found = [part for part in content if part.get("type") == "image_url"]
            pictures += [{"type": "text", "text": f"[{PICTURE_OF} {message['tool_call_id']}]"}, *found]
            text = "\n".join(str(part["text"]) for part in content if isinstance(part.get("text"), str))
            yield {**message, "content": text}
        elif message["role"] == "tool" or not pictures:
            yield message
        else:
            if message["role"] == "user":
                said = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
                yield {**message, "content": [*pictures, *said]}
            else:
                yield {"role": "user", "content": pictures}
                yield message
            pictures = []
    if pictures:
        yield {"role": "user", "content": pictures}


def _function(tool: ToolSchema) -> dict[str, Any]:
    strict = {"strict": True} if tool.strict else {}
    return {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters), **strict}


def _sendable(message: Message) -> dict[str, Any]:
    sent = {key: value for key, value in message.items() if key in SENT}
    name = message.get("name")
    return {**sent, "name": name} if isinstance(name, str) and NAME.fullmatch(name) else sent
