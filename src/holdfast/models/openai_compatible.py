"""`OpenAICompatible`: streaming chat completions from any server that speaks OpenAI's protocol.

OpenAI, OpenRouter, vLLM, Ollama, llama.cpp and their like, by their `base_url`. Read `contract.py` first;
`posting.py` asks, `openai_chunks.py` reads the answer, `failures.py` names what goes wrong and `patience.py`
tries again.
"""

import json
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from holdfast.core.contract import Clock, Message
from holdfast.core.errors import RequestRejected
from holdfast.models.client_model import ClientModel
from holdfast.models.completeness import Completeness
from holdfast.models.contract import ModelPiece, ModelRequest, ModelTraits
from holdfast.models.encoded_functions import EncodedFunctions
from holdfast.models.failures import ServerSaid, failure, quotable, server_said, unanswered
from holdfast.models.openai_chunks import ChunkReader, ErrorInStream
from holdfast.models.pace import Pace
from holdfast.models.server import Server

if TYPE_CHECKING:
    import httpx2

    from holdfast.models.posting import ByHttpx, Posting, Straight

OPENAI_HOST = "api.openai.com"
MOST_CONNECTIONS, MOST_KEPT = 1000, 100
"""To a server behind a proxy; without one, `Wire` makes as many as are needed."""


class OpenAICompatible(ClientModel["Posting"]):
    """A model behind an OpenAI-compatible server."""

    def __init__(
        self, server: Server, traits: ModelTraits, *, clock: Clock | None = None, pace: Pace | None = None
    ) -> None:
        super().__init__(server, traits, clock=clock)
        self._pace = pace or Pace()
        self._functions = EncodedFunctions()
        self._streaming = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        """The answer, piece by piece."""
        posting = await self._opened()
        import httpx2

        name = self._traits.name
        reader, answer = ChunkReader(name), Completeness(name)
        self._streaming += 1
        try:
            async with posting.post(self._content(request)) as incoming:
                await self._require_events(incoming)
                while not reader.closed:
                    # What came together goes on together: a busy program does less for each token.
                    pieces = reader.feed(await incoming.read())
                    self._let_gather(incoming, reader)
                    for piece in pieces:
                        yield answer.see(piece)
                    if reader.failure is not None:
                        raise reader.failure
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
        yield answer.see(reader.finished())

    def _let_gather(self, incoming: "Straight | ByHttpx", reader: ChunkReader) -> None:
        """Let more come before the next reading; neither the first words nor the end wait for that."""
        pause = self._pace.pause(self._streaming)
        if pause and reader.began and not reader.ended:
            incoming.hold(pause)

    @property
    def _address(self) -> str:
        return f"{self._server.base_url.rstrip('/')}/chat/completions"

    async def _require_events(self, incoming: "Straight | ByHttpx") -> None:
        """Raise the named error unless the answer is a stream of events."""
        answer = await incoming.instead()
        if answer is None:
            return
        status = None if answer.is_success else answer.status_code
        body = answer.content.decode(errors="replace")
        said = self._said(status, _parsed(body), answer.headers)
        if said.described or not answer.is_success:
            raise failure(self._traits.name, said)
        kind = answer.headers.get("content-type", "")
        raise RequestRejected(
            self._traits.name,
            f"{self._server.shown} answered with {kind} instead of a stream of events; check base_url",
        )

    def _said(self, status: int | None, body: object, headers: "httpx2.Headers | None" = None) -> ServerSaid:
        return server_said(status, body, headers or {}, now=self._clock.now(), key=self._server.key)

    def _content(self, request: ModelRequest) -> bytes:
        body = json.dumps(self._body(request), ensure_ascii=False, separators=(",", ":")).encode()
        return body[:-1] + b',"tools":' + self._functions.of(request.tools) + b"}" if request.tools else body

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
        return body

    def _new_client(self) -> "Posting":
        from urllib.request import getproxies

        import httpx2

        from holdfast.models.posting import Posting
        from holdfast.models.wire import Wire

        server = self._server
        # A proxy is used by httpx's own transport alone.
        direct = server.is_local or not getproxies()
        wire = Wire(httpx2.create_ssl_context(trust_env=not server.is_local)) if direct else None
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}
        if server.key:
            headers["Authorization"] = f"Bearer {server.key.reveal()}"
        client = httpx2.AsyncClient(
            headers=headers,
            timeout=httpx2.Timeout(server.stall_seconds, connect=server.connect_seconds),
            trust_env=not server.is_local,
            transport=wire,
            follow_redirects=True,
            limits=httpx2.Limits(max_connections=MOST_CONNECTIONS, max_keepalive_connections=MOST_KEPT),
        )

        return Posting(client, self._address, wire)

    async def _end(self, client: "Posting") -> None:
        await client.close()


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
