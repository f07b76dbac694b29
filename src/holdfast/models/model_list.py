"""Reads names, windows, sizes and prices from the list of models that a server gives. Pure functions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from holdfast.core.errors import ModelMissing
from holdfast.core.settings import ModelSettings
from holdfast.models.choice import DEFAULT_NAMES, HOSTS, ModelChoice
from holdfast.models.contract import FREE, ListedModel, Prices
from holdfast.models.known_prices import is_known, known_prices
from holdfast.models.model_abilities import calls_tools, sees_pictures
from holdfast.models.model_size import parameters_in, stated_parameters
from holdfast.models.server import Server

Listed = Sequence[Mapping[str, Any]]

# Tokens by the beginning of a name, longer beginnings first. The server's own number has priority.
WINDOWS: tuple[tuple[str, int], ...] = (
    ("openrouter/auto", 128_000),
    ("gpt-4.1", 1_000_000),
    ("gpt-4", 128_000),
    ("gpt-5", 400_000),
    ("o1", 200_000),
    ("o3", 200_000),
    ("o4", 200_000),
    ("claude-", 200_000),
)
# A number that is too small shortens conversations early; one that is too large makes servers refuse them.
UNKNOWN_WINDOW = 32_000
UNKNOWN_LOCAL_WINDOW = 4_096
MIN_WINDOW = 512
LOOPBACK = ("127.0.0.1", "localhost", "::1")
LISTED_WINDOWS = (
    "context_length",
    "max_model_len",
    "context_window",
    "max_context_length",
    "max_input_tokens",
)


def chat_models(listed: Listed) -> list[str]:
    """The names of the chat models."""
    names = [model["id"] for model in listed if isinstance(model.get("id"), str) and model["id"]]
    return [name for name in names if "embed" not in name.lower()]


def described_models(settings: ModelSettings, choice: ModelChoice, listed: Listed) -> list[ListedModel]:
    """The chat models with what the list says of each, or what is known by its name."""
    names = set(chat_models(listed))
    entries = [each for each in listed if each.get("id") in names]
    return [_described(settings, replace(choice, name=each["id"]), each) for each in entries]


def _described(settings: ModelSettings, choice: ModelChoice, entry: Mapping[str, Any]) -> ListedModel:
    known = next((size for start, size in WINDOWS if choice.name.startswith(start)), None)
    tools, pictures = calls_tools(entry), sees_pictures(entry)
    if _is_of_its_maker(choice) and is_known(choice.name):
        tools, pictures = tools is not False, pictures is not False
    own = choice.name == settings.name
    return ListedModel(
        choice.name,
        (settings.context_window if own else None) or _stated_window(entry) or known,
        tools,
        pictures,
        prices(settings if own else ModelSettings(), choice, [entry]),
    )


def with_listed_name(choice: ModelChoice, listed: Listed) -> ModelChoice:
    """The choice with a name: its own, or that of the first listed chat model."""
    if choice.name:
        return choice
    names = chat_models(listed)
    if not names:
        raise ModelMissing(
            f"the server at {Server(choice.base_url).display_url} lists no model to talk to. "
            "Load one there, or set model.name in the settings file."
        )
    return replace(choice, name=names[0])


def context_window(settings: ModelSettings, choice: ModelChoice, listed: Listed) -> int:
    """The window in tokens: from the settings, from the server, known for the name, or a careful guess."""
    if settings.context_window is not None:
        return settings.context_window
    known = next((size for start, size in WINDOWS if choice.name.startswith(start)), None)
    if choice.name == DEFAULT_NAMES["openrouter"] and known:
        return known  # it lists the widest of the models it may choose
    stated = _stated_window(_entry(choice, listed))
    local = choice.provider in ("ollama", "llamacpp")
    return stated or known or (UNKNOWN_LOCAL_WINDOW if local else UNKNOWN_WINDOW)


def prices(settings: ModelSettings, choice: ModelChoice, listed: Listed) -> Prices:
    """The prices from the settings, the server's list, or the maker's own table; unknown otherwise.

    A model on this machine costs nothing.
    """
    if settings.price_input is not None or settings.price_output is not None:
        return Prices(settings.price_input, settings.price_output, settings.price_cached)
    listed_prices = _entry(choice, listed).get("pricing")
    stated = listed_prices if isinstance(listed_prices, Mapping) else {}
    if stated:
        return Prices(
            input=_per_million(stated.get("prompt")),
            output=_per_million(stated.get("completion")),
            cached=_per_million(stated.get("input_cache_read")),
        )
    if choice.provider in ("ollama", "llamacpp") and urlsplit(choice.base_url).hostname in LOOPBACK:
        return FREE
    return known_prices(choice.name) if _is_of_its_maker(choice) else Prices()


def parameters(choice: ModelChoice, listed: Listed) -> int | None:
    """How many parameters the model has, as the server or its name says; None when neither does."""
    return stated_parameters(_entry(choice, listed)) or parameters_in(choice.name)


def _is_of_its_maker(choice: ModelChoice) -> bool:
    """Whether a name means what its maker says of it: elsewhere, another model may have that name."""
    return urlsplit(choice.base_url).hostname in HOSTS


def _entry(choice: ModelChoice, listed: Listed) -> Mapping[str, Any]:
    return next((model for model in listed if model.get("id") == choice.name), {})


def _stated_window(model: Mapping[str, Any]) -> int | None:
    """The window that the server states; the smallest when it states several."""
    meta = model.get("meta")
    inner = meta if isinstance(meta, Mapping) else {}
    sizes = [*(model.get(name) for name in LISTED_WINDOWS), inner.get("n_ctx") or inner.get("n_ctx_train")]
    return min((size for size in sizes if isinstance(size, int) and size >= MIN_WINDOW), default=None)


def _per_million(price: object) -> float | None:
    try:
        dollars = float(Decimal(str(price)) * 1_000_000)  # not 0.30000000000000004
    except ArithmeticError:
        return None
    return dollars if 0 <= dollars < float("inf") else None
