"""Which model is used when little or nothing is said, and what is known of it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import ModelMissing, SettingsInvalid
from holdfast.core.secret import Secret
from holdfast.core.settings import ModelSettings
from holdfast.models.choice import Keys, ModelChoice, choose, thinking
from holdfast.models.contract import Prices
from holdfast.models.model_list import context_window, prices, with_listed_name

NOTHING = ModelSettings()
LOCAL = "http://127.0.0.1:9999/v1"


def chosen(settings: ModelSettings = NOTHING, **variables: str) -> ModelChoice:
    choice = choose(settings, Keys.of(variables))
    assert choice is not None
    return choice


def revealed(choice: ModelChoice) -> str:
    return choice.key.reveal() if choice.key else ""


def test_with_nothing_set_this_machine_is_looked_at() -> None:
    assert choose(NOTHING, Keys.of({"PATH": "/bin", "OPENAI_API_KEY": " "})) is None


@pytest.mark.parametrize(
    ("variables", "provider", "host", "key"),
    [
        ({"OPENAI_API_KEY": "k"}, "openai", "api.openai.com", "k"),
        ({"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": LOCAL}, "openai", "127.0.0.1:9999", "k"),
        ({"OPENAI_BASE_URL": LOCAL}, "openai", "127.0.0.1:9999", ""),
        ({"ANTHROPIC_API_KEY": "k"}, "anthropic", "api.anthropic.com", "k"),
        ({"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": LOCAL}, "anthropic", "127.0.0.1:9999", "k"),
        ({"OPENROUTER_API_KEY": "k"}, "openrouter", "openrouter.ai", "k"),
        ({"OPENROUTER_API_KEY": "r", "ANTHROPIC_API_KEY": "a"}, "anthropic", "api.anthropic.com", "a"),
        ({"OPENROUTER_API_KEY": "r", "OPENAI_API_KEY": "o"}, "openai", "api.openai.com", "o"),
        (
            {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "https://openrouter.ai/api/v1"},
            "openai",
            "openrouter.ai",
            "k",
        ),
    ],
)
def test_a_key_in_the_environment_is_enough(
    variables: dict[str, str], provider: str, host: str, key: str
) -> None:
    choice = chosen(NOTHING, **variables)
    assert (choice.provider, revealed(choice)) == (provider, key)
    assert f"//{host}/" in f"{choice.base_url}/"
    assert "is set" in choice.reason


@pytest.mark.parametrize(
    ("name", "provider"),
    [
        ("claude-sonnet-5", "anthropic"),
        ("gpt-5", "openai"),
        ("o3", "openai"),
        ("meta/llama", "openrouter"),
        ("unheard-of", "openai"),
    ],
)
def test_of_several_keys_the_one_that_fits_the_models_name_is_taken(name: str, provider: str) -> None:
    keys = {"OPENAI_API_KEY": "o", "ANTHROPIC_API_KEY": "a", "OPENROUTER_API_KEY": "r"}
    choice = chosen(ModelSettings(name=name), **keys)
    assert (choice.provider, choice.name) == (provider, name)


def test_the_settings_go_before_the_environment() -> None:
    settings = ModelSettings(provider="anthropic", api_key=Secret("mine"), name="claude-x")
    choice = chosen(settings, OPENAI_API_KEY="o", ANTHROPIC_API_KEY="a")
    assert (choice.provider, choice.name, revealed(choice)) == ("anthropic", "claude-x", "mine")


@pytest.mark.parametrize(
    ("key", "provider"), [("sk-ant-1", "anthropic"), ("sk-or-1", "openrouter"), ("sk-1", "openai")]
)
def test_a_key_alone_says_whose_it_is(key: str, provider: str) -> None:
    assert chosen(ModelSettings(api_key=Secret(key))).provider == provider


def test_an_address_alone_needs_no_key_and_no_name() -> None:
    choice = chosen(ModelSettings(base_url=LOCAL))
    assert (choice.provider, choice.name, choice.key) == ("openai", "", None)


@given(
    st.sampled_from(["", "openai", "anthropic", "openrouter", "ollama", "llamacpp"]),
    st.sampled_from(["", LOCAL, "https://elsewhere.example/v1", "https://api.anthropic.com/v1"]),
    st.sampled_from(["", LOCAL, "https://api.openai.com/v1"]),
)
def test_a_key_of_the_environment_goes_only_where_it_belongs(provider: Any, url: str, beside: str) -> None:  # noqa: ANN401
    keys = {"OPENAI_API_KEY": "openai", "ANTHROPIC_API_KEY": "anthropic", "OPENROUTER_API_KEY": "openrouter"}
    choice = chosen(ModelSettings(provider=provider, base_url=url), OPENAI_BASE_URL=beside, **keys)
    allowed = {
        "api.openai.com": "openai",
        "api.anthropic.com": "anthropic",
        "openrouter.ai": "openrouter",
    }
    host = choice.base_url.split("/")[2]
    if host in allowed:
        assert revealed(choice) == allowed[host]
    else:
        assert revealed(choice) in ("", "openai")
        assert not revealed(choice) or choice.base_url == beside


@pytest.mark.parametrize("provider", ["openai", "anthropic", "openrouter"])
def test_a_provider_without_its_key_says_which_one_to_set(provider: Any) -> None:  # noqa: ANN401
    with pytest.raises(ModelMissing, match=f"{provider.upper()}_API_KEY"):
        chosen(ModelSettings(provider=provider))


def test_a_gguf_file_must_be_named() -> None:
    with pytest.raises(ModelMissing, match=r"model\.name"):
        chosen(ModelSettings(provider="gguf"))
    assert chosen(ModelSettings(provider="gguf", name="/m.gguf")).name == "/m.gguf"


def test_an_address_in_the_environment_that_is_none_is_named() -> None:
    with pytest.raises(SettingsInvalid, match="OPENAI_BASE_URL: must be like http"):
        Keys.of({"OPENAI_BASE_URL": "localhost:8000"})


def at(name: str = "m", provider: Any = "openai") -> ModelChoice:  # noqa: ANN401
    return ModelChoice(provider, name, "", LOCAL)


def test_a_server_with_no_name_set_gives_the_first_model_that_can_be_talked_to() -> None:
    listed = [{"id": "nomic-embed-text"}, {"object": "model"}, {"id": "llama"}, {"id": "other"}]
    assert with_listed_name(at(""), listed).name == "llama"
    assert with_listed_name(at("mine"), []).name == "mine"
    with pytest.raises(ModelMissing, match="lists no model"):
        with_listed_name(at(""), listed[:2])


@pytest.mark.parametrize(
    ("listed", "size"),
    [
        ({"context_length": 9000}, 9000),
        ({"max_model_len": 9000}, 9000),
        ({"meta": {"n_ctx_train": 9000}}, 9000),
        ({"meta": {"n_ctx_train": 131072, "n_ctx": 9000}}, 9000),
        ({"context_length": 131072, "max_model_len": 9000}, 9000),
        ({"context_length": "many", "meta": 3}, 32_000),
        ({"context_length": 0}, 32_000),
        ({}, 32_000),
    ],
)
def test_the_window_is_what_the_server_says_or_a_careful_guess(listed: dict[str, Any], size: int) -> None:
    assert context_window(NOTHING, at(), [{"id": "other"}, {"id": "m", **listed}]) == size


def test_the_window_that_is_set_goes_first_and_known_names_go_before_a_guess() -> None:
    listed = [{"id": "m", "context_length": 9000}]
    assert context_window(ModelSettings(context_window=700), at(), listed) == 700
    assert context_window(NOTHING, at("claude-x"), []) == 200_000
    assert context_window(NOTHING, at(provider="ollama"), []) == 4096
    auto = [{"id": "openrouter/auto", "context_length": 2_000_000}]
    assert context_window(NOTHING, at("openrouter/auto"), auto) == 128_000


def test_prices_are_as_set_or_as_listed_or_unknown() -> None:
    listed = [{"id": "m", "pricing": {"prompt": "0.000003", "completion": "0.000015", "image": "0"}}]
    assert prices(NOTHING, at(), listed) == Prices(3.0, 15.0, None)
    cached = [{"id": "m", "pricing": {"prompt": "1e-6", "completion": "2e-6", "input_cache_read": "1e-7"}}]
    assert prices(NOTHING, at(), cached) == Prices(1.0, 2.0, 0.1)
    assert prices(ModelSettings(price_input=1, price_output=2), at(), listed) == Prices(1, 2, None)
    assert prices(NOTHING, at(), [{"id": "m", "pricing": {"prompt": "-1", "completion": None}}]) == Prices()
    assert prices(NOTHING, at(), []) == Prices()


@pytest.mark.parametrize(
    ("given_", "sent"),
    [
        ("", None),
        ("off", {"type": "disabled"}),
        ("adaptive", {"type": "adaptive"}),
        ("2048", {"type": "enabled", "budget_tokens": 2048}),
    ],
)
def test_thinking_is_put_as_anthropic_wants_it(given_: str, sent: dict[str, Any] | None) -> None:
    assert thinking(ModelSettings(thinking=given_)) == sent
