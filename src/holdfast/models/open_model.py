"""`open_model`: opens the chosen model. `choice.py` and `model_list.py` decide which one it is."""

import importlib.util
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.core.contract import Clock
from holdfast.core.errors import ModelMissing, ModelUnreachable
from holdfast.core.settings import ModelSettings, Provider
from holdfast.models.anthropic_native import AnthropicNative, missing_library
from holdfast.models.choice import ADDRESSES, HOSTS, Keys, ModelChoice, choose, thinking
from holdfast.models.contract import Model, ModelTraits
from holdfast.models.local_servers import (
    listed_models,
    loaded_parameters,
    responding_servers,
    running_window,
)
from holdfast.models.model_list import chat_models, context_window, parameters, prices, with_listed_name
from holdfast.models.openai_compatible import OPENAI_HOST, OpenAICompatible
from holdfast.models.retrying_model import ModelRetryPolicy, RetryingModel
from holdfast.models.server import Server

logger = logging.getLogger(__name__)

LOCAL_SERVERS: tuple[tuple[Provider, str], ...] = (
    ("ollama", ADDRESSES["ollama"]),
    ("llamacpp", ADDRESSES["llamacpp"]),
)
Listed = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class OpenedModel:
    """An open model, and how it was chosen."""

    model: Model
    choice: ModelChoice


async def open_model(
    settings: ModelSettings,
    keys: Keys,
    clock: Clock,
    open_on_this_machine: Callable[[ModelChoice], Model],
    local_servers: Sequence[tuple[Provider, str]] = LOCAL_SERVERS,
) -> OpenedModel:
    """Open the model that the settings, the environment or this machine offer.

    `open_on_this_machine` opens the embedded model or a GGUF file. Raises `ModelMissing`, which says what to
    do, when there is no model, and `ModelUnreachable` when the server's list of models is needed and does not
    come.
    """
    choice = choose(settings, keys)
    listed: Listed = []
    if choice is None:
        choice, listed = await _on_this_machine(settings, local_servers)
    if choice.provider in ("gguf", "embedded"):
        model = open_on_this_machine(choice)
    else:
        choice, model = await _on_server(settings, choice, listed, clock)
    logger.info("model.chosen", extra={"model": model.traits.name, "reason": choice.reason})
    return OpenedModel(model, choice)


async def _on_this_machine(
    settings: ModelSettings, local_servers: Sequence[tuple[Provider, str]]
) -> tuple[ModelChoice, Listed]:
    for provider, url, listed in await responding_servers(local_servers):
        if settings.name in chat_models(listed) or (chat_models(listed) and not settings.name):
            return ModelChoice(provider, settings.name, f"{provider} answers on this machine", url), listed
    return ModelChoice("embedded", "", "there is no key and no local server"), []


async def _on_server(
    settings: ModelSettings, choice: ModelChoice, listed: Listed, clock: Clock
) -> tuple[ModelChoice, Model]:
    server = Server(choice.base_url, choice.key, settings.connect_timeout_s, settings.stall_timeout_s)
    listed = listed or await _listed(settings, choice, server)
    choice = with_listed_name(choice, listed)
    window = None
    if settings.context_window is None:
        window = await running_window(choice.provider, choice.name, server)
    size = parameters(choice, listed) or await loaded_parameters(choice.provider, choice.name, server)
    traits = ModelTraits(
        name=choice.name,
        context_window=window or context_window(settings, choice, listed),
        prices=prices(settings, choice, listed),
        parameters=size,
        takes_formats=choice.provider != "anthropic",
        provider=HOSTS.get(server.host, choice.provider),
    )
    policy = ModelRetryPolicy(attempts=settings.attempts, total_seconds=settings.retry_timeout_s)
    return choice, RetryingModel(_adapter(settings, choice, server, traits, clock), clock, policy)


async def _listed(settings: ModelSettings, choice: ModelChoice, server: Server) -> Listed:
    """The server's models, when the name or the window is not known without them."""
    known = choice.name and (settings.context_window is not None or server.host == OPENAI_HOST)
    if choice.provider == "openrouter" and settings.price_input is None:
        known = False  # its list has the prices
    if known or choice.provider == "anthropic":
        return []
    try:
        return await listed_models(choice.provider, choice.name, server)
    except ModelUnreachable:
        if choice.name:
            return []  # the first message asks the server again, and then reports the problem
        raise


def _adapter(
    settings: ModelSettings, choice: ModelChoice, server: Server, traits: ModelTraits, clock: Clock
) -> Model:
    if choice.provider != "anthropic":
        return OpenAICompatible(server, traits, clock=clock)
    if importlib.util.find_spec("anthropic") is None:
        raise ModelMissing(missing_library(traits.name))
    return AnthropicNative(server, traits, thinking=thinking(settings), clock=clock)
