"""A model is found and opened without any configuration, over real HTTP on loopback."""

import asyncio
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from holdfast.core.errors import ModelMissing, ModelUnreachable
from holdfast.core.settings import ModelSettings, Provider, Settings
from holdfast.models.choice import Keys, ModelChoice
from holdfast.models.contract import Model
from holdfast.models.local_servers import responding_servers
from holdfast.models.open_model import OpenedModel, open_model
from holdfast.testing import FakeClock, ScriptedModel
from holdfast.testing.http_server import HttpAnswer, HttpRequest, LoopbackServer
from holdfast.testing.scripted_server import ScriptedServer
from holdfast.wiring import open_model as open_wired
from tests.models.model_fixtures import collect, run, text_of

NO_KEYS = Keys()
EMBEDDED = ScriptedModel(["from within"], name="embedded")


def embedded(_: ModelChoice) -> Model:
    return EMBEDDED


async def found(
    settings: ModelSettings | None = None,
    keys: Keys = NO_KEYS,
    servers: Any = (),  # noqa: ANN401
) -> OpenedModel:
    return await open_model(settings or ModelSettings(), keys, FakeClock(), embedded, servers)


def test_a_local_server_that_answers_is_used_with_its_first_model_and_its_window() -> None:
    async def ask() -> None:
        async with ScriptedServer(["from the server"], name="loaded", context_window=6000) as server:
            opened = await found(servers=[("ollama", "http://127.0.0.1:9/v1"), ("llamacpp", server.base_url)])
            assert (opened.choice.provider, opened.model.traits.name) == ("llamacpp", "loaded")
            assert opened.model.traits.context_window == 6000
            assert text_of(await collect(opened.model)) == "from the server"
            await opened.model.close()

    run(ask())


def test_of_two_local_servers_the_first_in_order_comes_first_though_it_answers_later() -> None:
    async def ask() -> None:
        second_asked = asyncio.Event()

        async def late(_: HttpRequest, answer: HttpAnswer) -> None:
            await second_asked.wait()
            await answer.reply(200, {"data": [{"id": "first"}]})

        async def soon(_: HttpRequest, answer: HttpAnswer) -> None:
            second_asked.set()
            await answer.reply(200, {"data": [{"id": "second"}]})

        async with LoopbackServer(late) as first, LoopbackServer(soon) as second:
            servers: list[tuple[Provider, str]] = [
                ("openai", f"{first.url}/v1"),
                ("openai", f"{second.url}/v1"),
            ]
            # With time enough, also on a busy machine.
            answered = await responding_servers(servers, seconds=30)
            assert [models[0]["id"] for _, _, models in answered] == ["first", "second"]

    run(ask())


@contextmanager
def silent_port() -> Iterator[int]:
    """A port that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def test_servers_that_hang_or_serve_something_else_hold_nobody_up() -> None:
    async def page(_: HttpRequest, answer: HttpAnswer) -> None:
        await answer.reply(200, b"<html>a web page</html>", {"content-type": "text/html"})

    async def empty(_: HttpRequest, answer: HttpAnswer) -> None:
        await answer.reply(200, {"data": [{"id": "nomic-embed-text"}]})

    async def ask() -> float:
        async with LoopbackServer(page) as other, LoopbackServer(empty) as bare:
            with silent_port() as first, silent_port() as second:
                urls = [f"http://127.0.0.1:{port}" for port in (first, second)]
                servers = [("ollama", f"{url}/v1") for url in (*urls, other.url, bare.url)]
                began = time.monotonic()
                opened = await found(servers=servers)
                assert opened.model is EMBEDDED
                return time.monotonic() - began

    run(found())  # the HTTP library is loaded
    assert run(ask()) < 2


def test_a_model_that_no_local_server_has_is_not_asked_of_it() -> None:
    async def ask() -> None:
        async with ScriptedServer([], name="loaded") as server:
            other = await found(ModelSettings(name="other"), servers=[("ollama", server.base_url)])
            assert other.model is EMBEDDED

    run(ask())


def test_an_address_without_a_key_or_a_name_is_enough() -> None:
    async def ask() -> None:
        async with ScriptedServer(["hello"], name="served", context_window=5000) as server:
            opened = await found(keys=Keys.of({"OPENAI_BASE_URL": server.base_url}))
            assert (opened.model.traits.name, opened.model.traits.context_window) == ("served", 5000)
            assert text_of(await collect(opened.model)) == "hello"
            assert all("authorization" not in each.headers for each in server.requests)
            await opened.model.close()

    run(ask())


def test_a_server_that_must_say_which_model_it_has_and_does_not_is_unreachable() -> None:
    with pytest.raises(ModelUnreachable, match=r"127\.0\.0\.1:9/v1 gave no list"):
        run(found(ModelSettings(base_url="http://127.0.0.1:9/v1")))


def test_with_a_name_set_a_server_that_is_down_is_opened_all_the_same() -> None:
    opened = run(found(ModelSettings(base_url="http://127.0.0.1:9/v1", name="m")))
    assert (opened.model.traits.name, opened.model.traits.context_window) == ("m", 32_000)


@pytest.mark.parametrize(
    ("provider", "path", "body"),
    [
        ("llamacpp", "/props", {"default_generation_settings": {"n_ctx": 2048}}),
        ("ollama", "/api/ps", {"models": [{"name": "x"}, {"name": "m", "context_length": 2048}]}),
    ],
)
def test_a_local_server_is_asked_for_the_window_it_runs_with(
    provider: Any,  # noqa: ANN401
    path: str,
    body: object,
) -> None:
    async def handle(request: HttpRequest, answer: HttpAnswer) -> None:
        listed = {"data": [{"id": "m", "meta": {"n_ctx_train": 131_072}}]}
        await answer.reply(200, body if request.path == path else listed)

    async def ask() -> int:
        async with LoopbackServer(handle) as server:
            opened = await found(ModelSettings(provider=provider, base_url=f"{server.url}/v1"))
            return opened.model.traits.context_window

    assert run(ask()) == 2048


def test_anthropic_is_opened_with_its_own_adapter_and_without_asking_anyone() -> None:
    opened = run(found(keys=Keys.of({"ANTHROPIC_API_KEY": "k"})))
    assert opened.choice.provider == "anthropic"
    assert opened.model.traits.name.startswith("claude")
    assert opened.model.traits.context_window == 200_000


def test_patience_and_prices_come_from_the_settings() -> None:
    async def ask() -> None:
        async with ScriptedServer([ModelUnreachable("m", "down")] * 9) as server:
            settings = ModelSettings(base_url=server.base_url, attempts=1, price_input=2, price_output=3)
            opened = await found(settings)
            assert opened.model.traits.prices.input == 2
            with pytest.raises(ModelUnreachable, match="1 attempt"):
                await collect(opened.model)
            assert len(server.asked) == 1
            await opened.model.close()

    run(ask())


def test_with_nothing_at_all_it_is_said_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "holdfast.models.embedded", None)
    with pytest.raises(ModelMissing, match=r"no key and no local server.*set OPENAI_API_KEY.*start Ollama"):
        run(open_wired(Settings(), {}, local_servers=()))
