"""Errors of the model as the `openai` SDK meets them: its exceptions, asked once, and nothing left behind."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from holdfast.core.errors import (
    ContentRejected,
    ContextTooLong,
    KeyForbidden,
    KeyRejected,
    ModelBusy,
    ModelMissing,
    ModelUnknown,
    ModelUnreachable,
    NoCredit,
)
from holdfast.core.events import Event, TextDelta
from holdfast.models.contract import ModelTraits
from holdfast.sessions import SessionDB
from holdfast.testing import Call, Delay
from tests.agent.agent_fixtures import echo, until
from tests.core.picture_files import data_url, picture, png
from tests.web.api.api_server import TOKEN, Served, served

Wait = Callable[[Awaitable[Any]], Any]
HI: Any = [{"role": "user", "content": "hi"}]
INVALID = "invalid_request_error"
PERMANENT: list[Any] = [
    (ContextTooLong("m", "no"), openai.BadRequestError, 400, INVALID, "context_length_exceeded"),
    (ContentRejected("m", "no"), openai.BadRequestError, 400, INVALID, "invalid_value"),
    (KeyRejected("m", "no"), openai.AuthenticationError, 401, INVALID, "invalid_api_key"),
    (KeyForbidden("m", "no"), openai.PermissionDeniedError, 403, INVALID, "insufficient_permissions"),
    (ModelUnknown("m", "no"), openai.NotFoundError, 404, INVALID, "model_not_found"),
    (NoCredit("m", "no"), openai.RateLimitError, 429, "insufficient_quota", "insufficient_quota"),
    (ModelMissing("no"), openai.InternalServerError, 502, "server_error", "ModelMissing"),
]


@asynccontextmanager
async def client(server: Served, retries: int = 2) -> AsyncIterator[AsyncOpenAI]:
    url = f"{server.url}/v1"
    async with AsyncOpenAI(base_url=url, api_key=TOKEN, max_retries=retries, timeout=20) as sdk:
        yield sdk


async def ask(sdk: AsyncOpenAI, by: str, messages: Any = HI) -> None:  # noqa: ANN401 - what an SDK takes
    """Ask in one of the four ways, and read to the end."""
    api, _, stream = by.partition(" ")
    create: Any = sdk.chat.completions.create if api == "chat" else sdk.responses.create
    given = {"messages": messages} if api == "chat" else {"input": messages}
    answer = await create(model="x", stream=bool(stream), **given)
    if stream:
        async for _ in answer:
            pass


def sessions(db: SessionDB) -> list[str]:
    return [each.session.id for each in db.conversations.list(archived=None)]


@pytest.mark.parametrize("by", ["chat", "chat stream", "responses", "responses stream"])
@pytest.mark.parametrize("expected", PERMANENT, ids=lambda each: type(each[0]).__name__)
def test_what_will_fail_again_is_asked_once_and_leaves_no_session(
    in_memory: SessionDB, wait: Wait, by: str, expected: tuple[Any, ...]
) -> None:
    failure, exception, status, kind, code = expected

    async def scenario() -> None:
        async with served(in_memory, [failure, "it was asked again"]) as server, client(server) as sdk:
            with pytest.raises(exception) as raised:
                await ask(sdk, by)
            assert (raised.value.status_code, raised.value.type, raised.value.code) == (status, kind, code)
            assert "Nothing of this request was kept." in raised.value.message
            await until(lambda: sessions(in_memory) == [])

    wait(scenario())


@pytest.mark.parametrize("by", ["chat", "chat stream"])
def test_a_busy_model_is_429_with_its_own_wait_and_the_sdk_asks_again(
    in_memory: SessionDB, wait: Wait, by: str
) -> None:
    async def scenario() -> None:
        script = [ModelBusy("m", "slowly", 1.2), ModelUnreachable("m", "down"), "at last"]
        async with served(in_memory, script) as server:
            async with client(server, retries=0) as sdk:
                with pytest.raises(openai.RateLimitError) as busy:
                    await ask(sdk, by)
                assert busy.value.response.headers["retry-after"] == "2"
                assert (busy.value.type, busy.value.code) == ("requests", "rate_limit_exceeded")
            async with client(server, retries=1) as sdk:
                await ask(sdk, by)
            await until(lambda: len(sessions(in_memory)) == 1)

    wait(scenario())


@pytest.mark.parametrize(
    "script", [[["half ", KeyRejected("m", "no")]], [Call("echo"), KeyRejected("m", "no")]]
)
def test_a_failed_request_keeps_its_session_when_something_came(
    in_memory: SessionDB, wait: Wait, script: list[Any]
) -> None:
    async def scenario() -> None:
        async with served(in_memory, script, tools=[echo()]) as server, client(server) as sdk:
            with pytest.raises(openai.AuthenticationError, match="is kept in session") as raised:
                await ask(sdk, "chat")
            session = raised.value.response.headers["x-holdfast-session"]
            assert session in raised.value.message
            assert sessions(in_memory) == [session]

    wait(scenario())


def test_a_client_that_leaves_before_anything_came_leaves_no_session(
    in_memory: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        async with served(in_memory, [[Delay(60), "late"]] * 2) as server, client(server) as sdk:
            for by in ("chat", "chat stream"):
                with pytest.raises(openai.APITimeoutError):
                    await ask(sdk.with_options(timeout=0.5, max_retries=0), by)
                await until(lambda: sessions(in_memory) == [])

    wait(scenario())


def test_an_interrupted_turn_is_not_asked_again(in_memory: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        script = [["half ", Delay(60)], "it was asked again"]
        async with served(in_memory, script) as server, client(server) as sdk:
            stopping: set[asyncio.Task[bool]] = set()

            def stop(event: Event) -> None:
                if isinstance(event, TextDelta):
                    stopping.add(asyncio.create_task(server.host.interrupt(event.session_id)))

            server.host.watch(stop)
            with pytest.raises(openai.ConflictError, match="interrupted"):
                await ask(sdk, "chat")

    wait(scenario())


BAD: list[Any] = [
    [{"type": "zzz"}],
    [{"type": "text", "text": "look"}, picture(data_url(png()[:-9]))],
    [{"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}],
]


@pytest.mark.clause("I8")
@pytest.mark.parametrize("by", ["chat", "chat stream", "responses", "responses stream"])
@pytest.mark.parametrize("content", BAD)
def test_what_no_model_takes_is_refused_before_anything_is_stored(
    in_memory: SessionDB, wait: Wait, by: str, content: object
) -> None:
    async def scenario() -> None:
        async with served(in_memory) as server, client(server) as sdk:
            bad = {"role": "user", "content": content}
            for messages in ([bad], [bad, {"role": "assistant", "content": "so?"}, *HI]):
                with pytest.raises(openai.BadRequestError, match="part") as refused:
                    await ask(sdk, by, messages)
                assert (refused.value.type, refused.value.code) == (INVALID, "invalid_value")
            assert sessions(in_memory) == []

    wait(scenario())


@pytest.mark.parametrize("by", ["chat", "chat stream", "responses", "responses stream"])
def test_a_message_that_can_not_fit_the_window_never_reaches_the_model(
    in_memory: SessionDB, wait: Wait, by: str
) -> None:
    async def scenario() -> None:
        async with served(in_memory, ["it was asked"]) as server, client(server) as sdk:
            server.host.model = ModelTraits("small", 1_000)
            with pytest.raises(openai.BadRequestError) as refused:
                await ask(sdk, by, [{"role": "user", "content": "word " * 4_000}])
            assert refused.value.code == "context_length_exceeded"
            assert sessions(in_memory) == []

    wait(scenario())


@pytest.mark.clause("I8")
@pytest.mark.parametrize("content", BAD[:2])
def test_the_api_refuses_what_no_model_takes_and_the_conversation_goes_on(
    db: SessionDB, wait: Wait, content: object
) -> None:
    async def scenario() -> None:
        async with served(db, ["fine"]) as server:
            session = await server.begin()
            refused = [
                await server.http.post(f"/api/sessions/{session}/send", json={"content": content}),
                await server.http.post("/api/sessions", json={"message": {"content": content}}),
            ]
            for answer in refused:
                assert (answer.status_code, answer.json()["reason"]) == (422, "MessageInvalid"), answer.text
                assert "part" in answer.json()["detail"]
            assert sessions(db) == [session]
            await server.send(session, "hello")
            await server.until(session, "TurnCompleted", after=0)
            assert await server.said(session) == ["hello", "fine"]

    wait(scenario())


def test_an_error_is_made_of_whole_sentences(in_memory: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(in_memory) as server:
            body = (await server.http.post("/v1/nowhere", json={})).json()
            assert "there is nothing at /v1/nowhere. Look at" in body["error"]["message"]

    wait(scenario())
