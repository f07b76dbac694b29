"""What can lie between a request and its stream of events: redirects, compression, cookies, a password."""

import base64
import gzip
import json
from collections.abc import Mapping

import pytest

from holdfast.core.errors import KeyRejected
from holdfast.models.contract import Finished, ModelPiece, TextPiece
from holdfast.models.openai_compatible import OpenAICompatible
from holdfast.models.server import Server
from holdfast.testing.http_server import Handler, HttpAnswer, HttpRequest, LoopbackServer
from tests.models.model_fixtures import REQUEST, TRAITS, collect, run

EVENTS = {"content-type": "text/event-stream"}
CHOICE = {"index": 0, "delta": {"content": "word"}, "finish_reason": "stop"}
BODY = b"data: " + json.dumps({"choices": [CHOICE]}).encode() + b"\n\ndata: [DONE]\n\n"
MEANT: list[ModelPiece] = [TextPiece("word"), Finished("stop")]


async def streamed(reply: HttpAnswer, body: bytes = BODY, headers: Mapping[str, str] | None = None) -> None:
    await reply.start({**EVENTS, **(headers or {})})
    await reply.send(body)
    await reply.end()


def asked(handle: Handler, *, times: int = 1, name: str = "") -> tuple[list[ModelPiece], list[HttpRequest]]:
    """The last answer, and all that the server was asked."""

    async def scenario() -> tuple[list[ModelPiece], list[HttpRequest]]:
        async with LoopbackServer(handle) as server:
            url = server.url.replace("//", f"//{name}@") if name else server.url
            model = OpenAICompatible(Server(f"{url}/v1"), TRAITS)
            try:
                answers = [await collect(model) for _ in range(times)]
            finally:
                await model.close()
            return answers[-1], server.requests

    return run(scenario())


def test_each_request_is_sent_whole_with_its_own_length() -> None:
    async def handle(_: HttpRequest, reply: HttpAnswer) -> None:
        await streamed(reply)

    pieces, requests = asked(handle, times=2)
    assert pieces == MEANT
    for each in requests:
        assert (each.method, each.path) == ("POST", "/v1/chat/completions")
        assert each.json()["messages"][-1] == REQUEST.messages[-1]
        assert int(each.headers["content-length"]) == len(each.body)
        assert each.headers["content-type"] == "application/json"
        assert each.headers["host"].startswith("127.0.0.1:")


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_is_followed_with_the_same_request(status: int) -> None:
    async def handle(request: HttpRequest, reply: HttpAnswer) -> None:
        if request.path.startswith("/v1/"):
            await reply.reply(status, {}, {"location": "/v2/chat/completions"})
        else:
            await streamed(reply)

    pieces, requests = asked(handle)
    assert pieces == MEANT
    assert requests[-1].path == "/v2/chat/completions"
    assert requests[-1].json() == requests[0].json()


def test_a_compressed_stream_is_read() -> None:
    async def handle(request: HttpRequest, reply: HttpAnswer) -> None:
        assert "gzip" in request.headers["accept-encoding"]
        await streamed(reply, gzip.compress(BODY), {"content-encoding": "gzip"})

    assert asked(handle)[0] == MEANT


def test_a_compressed_refusal_is_shown_in_its_words() -> None:
    async def handle(_: HttpRequest, reply: HttpAnswer) -> None:
        said = json.dumps({"error": {"message": "that key is old"}}).encode()
        await reply.reply(401, gzip.compress(said), {"content-encoding": "gzip"})

    with pytest.raises(KeyRejected, match="that key is old"):
        asked(handle)


@pytest.mark.parametrize("kind", ["application/octet-stream", "Text/Event-Stream; charset=utf-8"])
def test_a_stream_by_another_name_is_read_too(kind: str) -> None:
    async def handle(_: HttpRequest, reply: HttpAnswer) -> None:
        await streamed(reply, headers={"content-type": kind})

    assert asked(handle)[0] == MEANT


def test_cookies_come_back_to_the_server_that_gave_them() -> None:
    """Some servers find the machine with the warm cache by them."""

    async def handle(_: HttpRequest, reply: HttpAnswer) -> None:
        await streamed(reply, headers={"set-cookie": "machine=seven; Path=/"})

    pieces, requests = asked(handle, times=3)
    assert pieces == MEANT
    assert [each.headers.get("cookie") for each in requests] == [None, "machine=seven", "machine=seven"]


def test_a_name_and_a_password_in_the_address_are_sent_as_such() -> None:
    async def handle(_: HttpRequest, reply: HttpAnswer) -> None:
        await streamed(reply)

    given = base64.b64encode(b"ann:secret").decode()
    assert asked(handle, name="ann:secret")[1][0].headers["authorization"] == f"Basic {given}"


def test_a_proxy_is_asked_where_one_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    async def handle(_: HttpRequest, reply: HttpAnswer) -> None:
        await streamed(reply)

    async def scenario() -> tuple[list[ModelPiece], str]:
        async with LoopbackServer(handle) as proxy:
            monkeypatch.setenv("http_proxy", proxy.url)
            model = OpenAICompatible(Server("http://far.away.test/v1"), TRAITS)
            try:
                return await collect(model), proxy.requests[0].path
            finally:
                await model.close()

    assert run(scenario()) == (MEANT, "http://far.away.test/v1/chat/completions")
