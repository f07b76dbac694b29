"""A request of `/v1` may name one of the models on offer; the session uses it from then on."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from holdfast import Host, SessionDB, Settings
from holdfast.core.settings import HostSettings, MemorySettings, ModelSettings, WebSettings
from holdfast.testing.http_server import HttpAnswer, HttpRequest, LoopbackServer
from tests.web.api.account_fixtures import account
from tests.web.api.api_server import Served, serving

Wait = Callable[[Awaitable[Any]], Any]
OFFERED = ["small", "large", "huge"]


async def model_server(request: HttpRequest, answer: HttpAnswer) -> None:
    """A server with three models, each of which says its name."""
    if request.path.endswith("/models"):
        await answer.reply(200, {"data": [{"id": name} for name in OFFERED]})
        return
    name = request.json()["model"]
    delta = {"choices": [{"index": 0, "delta": {"content": name}, "finish_reason": "stop"}]}
    await answer.start({"content-type": "text/event-stream"})
    await answer.send(f"data: {json.dumps(delta)}\n\ndata: [DONE]\n\n".encode())
    await answer.end()


@asynccontextmanager
async def with_models(db: SessionDB, **web: Any) -> AsyncIterator[tuple[Served, LoopbackServer]]:  # noqa: ANN401
    async with LoopbackServer(model_server) as models:
        settings = Settings(
            model=ModelSettings(
                provider="openai", name="small", base_url=f"{models.url}/v1", context_window=50_000
            ),
            memory=MemorySettings(providers=()),
            host=HostSettings(titles=False),
        )
        async with serving(Host(settings, store=db), WebSettings(**web)) as server:
            yield server, models


async def chat(http: httpx2.AsyncClient, model: str, session: str = "") -> tuple[str, str]:
    """What a chat completion says, and the model that it names."""
    headers = {"X-Holdfast-Session": session} if session else {}
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
    answer = (await http.post("/v1/chat/completions", json=body, headers=headers)).json()
    return answer["choices"][0]["message"]["content"], answer["model"]


async def listed(http: httpx2.AsyncClient) -> list[str]:
    return [each["id"] for each in (await http.get("/v1/models")).json()["data"]]


def test_a_model_on_offer_is_used_and_any_other_name_leaves_the_sessions_model_as_it_is(
    in_memory: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        async with with_models(in_memory) as (server, models):
            http = server.http
            assert await listed(http) == ["holdfast", "small", "large", "huge"]
            assert (await http.get("/v1/models/large")).json()["id"] == "large"
            assert (await http.get("/v1/models/gpt-4o")).status_code == 404
            for name, used in (("large", "large"), ("", "small"), ("gpt-4o", "small"), ("holdfast", "small")):
                assert await chat(http, name) == (used, used)
            response = (await http.post("/v1/responses", json={"model": "huge", "input": "hi"})).json()
            assert (response["output"][0]["content"][0]["text"], response["model"]) == ("huge", "huge")
            again = (await http.get(f"/v1/responses/{response['id']}")).json()
            assert again["model"] == "huge"
            lists = [each for each in models.requests if each.path.endswith("/models")]
            assert len(lists) == 1, "the list is not asked for with each request"

    wait(scenario())


def test_a_session_keeps_the_model_until_a_request_names_another(in_memory: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with with_models(in_memory) as (server, _):
            http = server.http
            asked = ["small", "large", "holdfast", "gpt-4o", "huge", "small"]
            told = [await chat(http, name, "desk") for name in asked]
            used = ["small", "large", "large", "large", "huge", "small"]
            assert told == [(name, name) for name in used]
            begun = (await http.post("/api/sessions", json={"model": "huge"})).json()["id"]
            assert await chat(http, "gpt-4o", begun) == ("huge", "huge"), "what a person chose stays"
            assert await chat(http, "large", "new") == ("large", "large")
            assert (await http.get("/api/sessions/new")).json()["model"] == "large"

    wait(scenario())


@pytest.mark.parametrize("allowed", [(), ("large",)])
def test_an_account_names_only_what_is_on_offer_to_it(
    in_memory: SessionDB, wait: Wait, allowed: tuple[str, ...]
) -> None:
    async def scenario() -> None:
        async with (
            with_models(in_memory, user_models=allowed) as (server, _),
            account(server, in_memory, "Ada") as ada,
        ):
            offered = allowed or ("large", "huge")
            assert await listed(ada.http) == ["holdfast", "small", *offered]
            assert await chat(ada.http, "large", "mine") == ("large", "large")
            huge = "small" if allowed else "huge"
            assert await chat(ada.http, "huge") == (huge, huge)
            for name in ("scripted:/dev/zero", "gguf:/etc/passwd", "openai:large"):
                assert await chat(ada.http, name) == ("small", "small")
            assert await listed(server.http) == ["holdfast", *OFFERED]

    wait(scenario())


def test_without_a_list_the_usual_model_answers(in_memory: SessionDB, wait: Wait) -> None:
    async def unlisted(request: HttpRequest, answer: HttpAnswer) -> None:
        if request.path.endswith("/models"):
            await answer.reply(500, {})
        else:
            await model_server(request, answer)

    async def scenario() -> None:
        async with LoopbackServer(unlisted) as models:
            model = ModelSettings(
                provider="openai", name="small", base_url=f"{models.url}/v1", context_window=50_000
            )
            settings = Settings(model=model, memory=MemorySettings(providers=()))
            async with serving(Host(settings, store=in_memory)) as server:
                assert await listed(server.http) == ["holdfast", "small"]
                assert await chat(server.http, "large") == ("small", "small")

    wait(scenario())
