"""What servers say of their models: names, windows, prices. Pure functions on the list a server gives."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdfast.core.errors import ModelMissing
from holdfast.core.settings import ModelSettings
from holdfast.models.choice import DEFAULT_NAMES, Choice
from holdfast.models.contract import Prices
from holdfast.models.server import Server

Listed = Sequence[Mapping[str, Any]]

# Tokens by the beginning of a name, the longer one first; what servers say goes before it.
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
# Too small only makes the conversation be shortened early; too large makes servers refuse or cut it.
UNKNOWN_WINDOW = 32_000
UNKNOWN_LOCAL_WINDOW = 4_096
SMALLEST_WINDOW = 512
LISTED_WINDOWS = (
    "context_length",
    "max_model_len",
    "context_window",
    "max_context_length",
    "max_input_tokens",
)


def chatting(listed: Listed) -> list[str]:
    """The names of the models that can be talked to."""
    names = [model["id"] for model in listed if isinstance(model.get("id"), str) and model["id"]]
    return [name for name in names if "embed" not in name.lower()]


def with_listed_name(choice: Choice, listed: Listed) -> Choice:
    """The choice with a name: its own, or the first listed that can be talked to."""
    if choice.name:
        return choice
    names = chatting(listed)
    if not names:
        raise ModelMissing(
            f"the server at {Server(choice.base_url).shown} lists no model to talk to. "
            "Load one there, or set model.name in the settings file."
        )
    return replace(choice, name=names[0])


def context_window(settings: ModelSettings, choice: Choice, listed: Listed) -> int:
    """Tokens: as set, as the server says, as known for the name, or a careful guess."""
    if settings.context_window is not None:
        return settings.context_window
    known = next((size for start, size in WINDOWS if choice.name.startswith(start)), None)
    if choice.name == DEFAULT_NAMES["openrouter"] and known:
        return known  # it lists the widest of the models it may choose
    said = _said_window(_entry(choice, listed))
    local = choice.provider in ("ollama", "llamacpp")
    return said or known or (UNKNOWN_LOCAL_WINDOW if local else UNKNOWN_WINDOW)


def prices(settings: ModelSettings, choice: Choice, listed: Listed) -> Prices:
    """As set, or as a router lists them; unknown otherwise."""
    if settings.price_input is not None or settings.price_output is not None:
        return Prices(settings.price_input, settings.price_output, settings.price_cached)
    listed_prices = _entry(choice, listed).get("pricing")
    said = listed_prices if isinstance(listed_prices, Mapping) else {}
    return Prices(*(_per_million(said.get(name)) for name in ("prompt", "completion", "input_cache_read")))


def _entry(choice: Choice, listed: Listed) -> Mapping[str, Any]:
    return next((model for model in listed if model.get("id") == choice.name), {})


def _said_window(model: Mapping[str, Any]) -> int | None:
    """The window in a server's words; of several statements the narrowest."""
    meta = model.get("meta")
    inner = meta if isinstance(meta, Mapping) else {}
    sizes = [*(model.get(name) for name in LISTED_WINDOWS), inner.get("n_ctx") or inner.get("n_ctx_train")]
    return min((size for size in sizes if isinstance(size, int) and size >= SMALLEST_WINDOW), default=None)


def _per_million(price: object) -> float | None:
    try:
        dollars = float(str(price)) * 1_000_000
    except ValueError:
        return None
    return dollars if 0 <= dollars < float("inf") else None
