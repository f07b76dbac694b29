"""What a model can is said as far as its server or a published table tells it."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.core.secret import Secret
from holdfast.core.settings import ModelSettings, Provider, Settings
from holdfast.models.choice import ADDRESSES, DEFAULT_NAMES, ModelChoice
from holdfast.models.contract import FREE, ListedModel, Prices
from holdfast.models.known_prices import PRICES_AS_OF
from holdfast.models.model_list import described_models, prices
from holdfast.testing.http_server import HttpAnswer, HttpRequest, LoopbackServer
from holdfast.wiring.model_opener import describe_models, list_models
from tests.models.model_fixtures import KEY, run

NOTHING = ModelSettings()


def described(provider: Provider, *entries: dict[str, Any], settings: ModelSettings = NOTHING) -> Any:  # noqa: ANN401
    return described_models(settings, ModelChoice(provider, "", "", ADDRESSES[provider]), entries)


def test_openrouter_tells_everything_about_each_model() -> None:
    entry = {
        "id": "maker/m",
        "context_length": 9000,
        "architecture": {"input_modalities": ["text", "image"]},
        "supported_parameters": ["tools", "temperature"],
        "pricing": {"prompt": "0.000003", "completion": "0.000015", "input_cache_read": "0.0000003"},
    }
    plain = {**entry, "id": "n", "architecture": {"input_modalities": ["text"]}, "supported_parameters": []}
    assert described("openrouter", entry, plain, {"id": "text-embedding"}, {"id": 3}) == [
        ListedModel("maker/m", 9000, True, True, Prices(3.0, 15.0, 0.3)),
        ListedModel("n", 9000, False, False, Prices(3.0, 15.0, 0.3)),
    ]


def test_a_cached_price_of_openrouters_list_is_the_price_of_what_was_cached() -> None:
    listed = [{"id": "m", "pricing": {"prompt": "0.000001", "input_cache_read": "0.00000025"}}]
    assert prices(NOTHING, ModelChoice("openrouter", "m", ""), listed) == Prices(1.0, None, 0.25)


def test_well_known_models_of_a_maker_are_described_by_the_table() -> None:
    [known, dated, other] = described(
        "openai", {"id": "gpt-5-mini"}, {"id": "o3-2025-04-16"}, {"id": "tts-1"}
    )
    assert known == ListedModel("gpt-5-mini", 400_000, True, True, Prices(0.25, 2, 0.025, PRICES_AS_OF))
    assert (dated.calls_tools, dated.sees_pictures, dated.prices) == (
        True,
        True,
        Prices(2, 8, 0.5, PRICES_AS_OF),
    )
    assert other == ListedModel("tts-1")
    for provider in ("openai", "anthropic"):
        [usual] = described(provider, {"id": DEFAULT_NAMES[provider]})
        assert (usual.calls_tools, usual.sees_pictures) == (True, True)


def test_a_well_known_name_on_another_server_says_nothing() -> None:
    elsewhere = ModelChoice("openai", "", "", "http://models.example/v1")
    [found] = described_models(NOTHING, elsewhere, [{"id": "o3"}])
    assert (found.calls_tools, found.sees_pictures, found.prices) == (None, None, Prices())


def test_what_is_set_for_the_model_in_use_goes_first() -> None:
    own = ModelSettings(name="gpt-5", context_window=1000, price_input=7, price_output=8)
    [used, other] = described("openai", {"id": "gpt-5"}, {"id": "gpt-5-nano"}, settings=own)
    assert (used.context_window, used.prices) == (1000, Prices(7, 8))
    assert (other.context_window, other.prices) == (400_000, Prices(0.05, 0.4, 0.005, PRICES_AS_OF))


def told_by(
    provider: Provider, routes: dict[str, Callable[[HttpRequest], object]], path: str = "/v1", key: str = ""
) -> list[ListedModel]:
    """What is said of the models of a server that answers on these paths."""

    async def handle(request: HttpRequest, answer: HttpAnswer) -> None:
        route = routes.get(request.path)
        await answer.reply(200 if route else 404, route(request) if route else {})

    async def ask() -> list[ListedModel]:
        async with LoopbackServer(handle) as server:
            model = ModelSettings(provider=provider, base_url=f"{server.url}{path}", api_key=Secret(key))
            settings = Settings(model=model)
            found = (await describe_models(settings))[1]
            assert (await list_models(settings))[1] == [each.name for each in found]
            return found

    asked: Awaitable[list[ListedModel]] = ask()
    return run(asked)


def test_ollama_is_asked_what_each_model_can_and_which_window_it_has() -> None:
    def show(request: HttpRequest) -> object:
        capabilities = {
            "qwen3:8b": ["completion", "tools", "thinking"],
            "gemma3:4b": ["completion", "vision"],
        }
        return {"capabilities": capabilities.get(request.json()["model"]), "model_info": {}}

    found = told_by(
        "ollama",
        {
            "/v1/models": lambda _: {"data": [{"id": "qwen3:8b"}, {"id": "gemma3:4b"}, {"id": "old:1b"}]},
            "/api/show": show,
            "/api/ps": lambda _: {"models": [{"name": "qwen3:8b", "context_length": 8192}]},
        },
    )
    assert found == [
        ListedModel("qwen3:8b", 8192, True, False, FREE),
        ListedModel("gemma3:4b", None, False, True, FREE),
        ListedModel("old:1b", None, None, None, FREE),
    ]


@pytest.mark.parametrize("props", [None, {}, {"modalities": 7, "default_generation_settings": []}])
def test_a_llamacpp_server_that_tells_nothing_is_listed_all_the_same(props: object) -> None:
    listed = {"/v1/models": lambda _: {"data": [{"id": "loaded"}]}, "/props": lambda _: props}
    assert told_by("llamacpp", listed) == [ListedModel("loaded", prices=FREE)]


def test_llamacpp_is_asked_what_its_model_can() -> None:
    props = {
        "default_generation_settings": {"n_ctx": 6144},
        "modalities": {"vision": True, "audio": False},
        "chat_template_caps": {"supports_tools": True, "supports_tool_calls": True},
    }
    listed = {"/v1/models": lambda _: {"data": [{"id": "loaded", "meta": {"n_ctx_train": 40960}}]}}
    assert told_by("llamacpp", {**listed, "/props": lambda _: props}) == [
        ListedModel("loaded", 6144, True, True, FREE)
    ]


def test_anthropics_own_list_is_asked_for_with_its_own_headers() -> None:
    def models(request: HttpRequest) -> object:
        assert request.headers["x-api-key"] == KEY
        assert request.headers["anthropic-version"]
        assert "authorization" not in request.headers
        entry = {"id": "claude-x", "type": "model", "max_input_tokens": 500_000}
        return {"data": [{**entry, "capabilities": {"image_input": {"supported": True}}}, {"id": "claude-y"}]}

    found = told_by("anthropic", {"/v1/models?limit=1000": models}, path="", key=KEY)
    assert found == [ListedModel("claude-x", 500_000, None, True), ListedModel("claude-y", 200_000)]
