"""`OpenAICompatible`: streaming chat completions from any server that speaks OpenAI's protocol.

OpenAI, OpenRouter, vLLM, Ollama, llama.cpp and their like, by their `base_url`. Read `contract.py` first;
`openai_chunks.py` reads the answer, `failures.py` names what goes wrong, `patience.py` tries again.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from holdfast.core.contract import Message
from holdfast.core.errors import RequestRejected
from holdfast.models.client_model import ClientModel
from holdfast.models.contract import ModelPiece, ModelRequest, ToolSchema
from holdfast.models.event_data import EventData
from holdfast.models.failures import ServerSaid, failure, quotable, server_said, unanswered
from holdfast.models.openai_chunks import ChunkReader, joined

if TYPE_CHECKING:
    import httpx2

OPENAI_HOST = "api.openai.com"
DONE = "[DONE]"
FEW, PAUSE_FOR_EACH, LONGEST_PAUSE = 8, 0.0005, 0.1
"""Answers that are read as they come; how long a read waits for each that streams beside it, in seconds."""
MOST_CONNECTIONS, MOST_KEPT = 1000, 100
"""To a server behind a proxy; without one, `Wire` makes as many as are needed."""


class OpenAICompatible(ClientModel["httpx2.AsyncClient"]):
    """A model behind an OpenAI-compatible server."""

    _streaming = 0

    async def _pieces(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        client = await self._opened()
        import httpx2

        name, reader = self._traits.name, ChunkReader(self._traits.name)
        self._streaming += 1
        try:
            async with client.stream("POST", self._address, content=self._content(request)) as answer:
                await self._require_events(answer)
                async with aclosing(chunks_of(answer)) as arrivals:
                    async for chunks in arrivals:
                        # What came together goes on together: a busy program does less for each token.
                        for piece in joined(piece for chunk in chunks for piece in reader.pieces(chunk)):
                            yield piece
                        await self._pause()
        except (httpx2.HTTPError, httpx2.StreamError, ValueError) as cause:
            # Once the model has said that it is done, a broken connection takes nothing away.
            if not reader.ended:
                broken = unanswered(name, self._server, cause, began=reader.began)
                raise broken from quotable(cause, self._server.key)
        except ErrorInStream as error:
            if not reader.ended:
                raise failure(name, self._said(None, error.body), began=reader.began) from None
        finally:
            self._streaming -= 1
        yield reader.finished()

    async def _pause(self) -> None:
        """Let more come before it is read, when many answers stream at once."""
        if self._streaming > FEW:
            await asyncio.sleep(min(LONGEST_PAUSE, self._streaming * PAUSE_FOR_EACH))

    @property
    def _address(self) -> str:
        return f"{self._server.base_url.rstrip('/')}/chat/completions"

    async def _require_events(self, answer: "httpx2.Response") -> None:
        """Raise the named error unless the answer is a stream of events."""
        kind = answer.headers.get("content-type", "")
        if answer.is_success and not kind.startswith(("text/html", "application/json")):
            return
        body = (await answer.aread()).decode(errors="replace")
        said = self._said(None if answer.is_success else answer.status_code, _parsed(body), answer.headers)
        if said.described or not answer.is_success:
            raise failure(self._traits.name, said)
        raise RequestRejected(
            self._traits.name,
            f"{self._server.shown} answered with {kind} instead of a stream of events; check base_url",
        )

    def _said(self, status: int | None, body: object, headers: "httpx2.Headers | None" = None) -> ServerSaid:
        return server_said(status, body, headers or {}, now=self._clock.now(), key=self._server.key)

    def _content(self, request: ModelRequest) -> bytes:
        return json.dumps(self._body(request), ensure_ascii=False, separators=(",", ":")).encode()

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

    def _new_client(self) -> "httpx2.AsyncClient":
        from urllib.request import getproxies

        import httpx2

        from holdfast.models.wire import Wire

        server = self._server
        # A proxy is used by httpx's own transport alone.
        direct = server.is_local or not getproxies()
        wire = Wire(httpx2.create_ssl_context(trust_env=not server.is_local)) if direct else None
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}
        if server.key:
            headers["Authorization"] = f"Bearer {server.key.reveal()}"
        return httpx2.AsyncClient(
            headers=headers,
            timeout=httpx2.Timeout(server.stall_seconds, connect=server.connect_seconds),
            trust_env=not server.is_local,
            transport=wire,
            follow_redirects=True,
            limits=httpx2.Limits(max_connections=MOST_CONNECTIONS, max_keepalive_connections=MOST_KEPT),
        )

    async def _end(self, client: "httpx2.AsyncClient") -> None:
        await client.aclose()


class ErrorInStream(Exception):
    """A server said within its answer that it failed."""

    def __init__(self, body: object) -> None:
        super().__init__("the server reported an error within its answer")
        self.body = body


async def chunks_of(answer: "httpx2.Response") -> AsyncGenerator[list[object], None]:
    """The chunks of an answer, those that came from the network together at a time.

    What can't be read, and an error that the server reports, are raised after the chunks that came before.
    """
    events = EventData()
    async with aclosing(answer.aiter_bytes()) as content:
        async for arrived in content:
            for chunks in _checked(events.feed(arrived)):
                yield chunks
    for chunks in _checked(events.end()):
        yield chunks


def _checked(arrived: Sequence[str]) -> Iterator[list[object]]:
    """The chunks that are whole and no errors; then the first that isn't is raised."""
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
            raise ErrorInStream(chunk["error"])
        chunks.append(chunk)
    if chunks:
        yield chunks


def _parsed(body: str) -> object:
    """A refusal's body: JSON if it is that, else its text."""
    try:
        return json.loads(body)
    except ValueError:
        return body


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
