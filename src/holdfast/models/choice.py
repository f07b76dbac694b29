"""Chooses a model from the settings and the keys. Pure functions.

The order is: the settings, a key in the environment, a server on this machine, the embedded model.
`model_list.py` reads the lists that servers give of their models; `open_model.py` asks for the list and opens
the model that was chosen.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from holdfast.core.errors import ModelMissing, SettingsInvalid
from holdfast.core.secret import Secret
from holdfast.core.server_url import server_url_problem
from holdfast.core.settings import ModelSettings, Provider

ADDRESSES: Mapping[Provider, str] = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "openrouter": "https://openrouter.ai/api/v1",
    "ollama": "http://127.0.0.1:11434/v1",
    "llamacpp": "http://127.0.0.1:8080/v1",
}
# A server on this machine serves the models that its owner loaded, so its first listed model is taken.
DEFAULT_NAMES: Mapping[Provider, str] = {
    "openai": "gpt-5.4-mini",
    "anthropic": "claude-sonnet-5",
    "openrouter": "openrouter/auto",
}
KEY_NAMES: Mapping[Provider, str] = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
}
ADDRESS_NAMES: Mapping[Provider, str] = {"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL"}
HOSTS: Mapping[str, Provider] = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "openrouter.ai": "openrouter",
}
KEY_PREFIXES: tuple[tuple[str, Provider], ...] = (("sk-ant-", "anthropic"), ("sk-or-", "openrouter"))
NAME_SHAPES: tuple[tuple[str, Provider], ...] = (
    (r"claude", "anthropic"),
    (r"gpt-|chatgpt-|o\d", "openai"),
    (r"[^/]+/.", "openrouter"),
)


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys and addresses from environment variables of other programs; none of them is blank."""

    api_keys: Mapping[Provider, str] = field(default_factory=dict, repr=False)
    addresses: Mapping[Provider, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Keys":
        """Read them from variables; blank ones are ignored. Raises `SettingsInvalid` for a bad address."""
        found = cls(_set_variables(KEY_NAMES, environment), _set_variables(ADDRESS_NAMES, environment))
        checked = [(ADDRESS_NAMES[each], server_url_problem(url)) for each, url in found.addresses.items()]
        if problems := [(name, problem) for name, problem in checked if problem]:
            raise SettingsInvalid(problems)
        return found


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The chosen model. An empty `name` means the first model that the server lists."""

    provider: Provider
    name: str
    reason: str
    """Why this model was chosen, for a person to read."""
    base_url: str = ""
    key: Secret | None = None


def choose(settings: ModelSettings, keys: Keys) -> ModelChoice | None:
    """The model that the settings or the environment name; None means: look for servers on this machine."""
    found = _provider(settings, keys)
    if found is None:
        return None
    provider, reason = found
    if provider in ("gguf", "embedded"):
        if provider == "gguf" and not settings.name:
            raise ModelMissing("model.provider is gguf: set model.name to the path of a GGUF file")
        return ModelChoice(provider, settings.name, reason)
    base_url = settings.base_url or keys.addresses.get(provider) or ADDRESSES[provider]
    owner = HOSTS.get(_host(base_url))
    key = settings.api_key or Secret(_key_for(base_url, provider, keys))
    if not key and owner is not None:
        raise ModelMissing(
            f"{owner} needs a key: set {KEY_NAMES[owner]}, or model.api_key in the settings, "
            "or pass api_key=… to open_model"
        )
    default = DEFAULT_NAMES.get(owner or provider, "") if owner or provider == "anthropic" else ""
    return ModelChoice(provider, settings.name or default, reason, base_url, key or None)


def thinking(settings: ModelSettings) -> dict[str, Any] | None:
    """The parameter `thinking` of Anthropic's API; None means the model's default."""
    match settings.thinking:
        case "":
            return None
        case "off":
            return {"type": "disabled"}
        case "adaptive":
            return {"type": "adaptive"}
        case tokens:
            return {"type": "enabled", "budget_tokens": int(tokens)}


def _provider(settings: ModelSettings, keys: Keys) -> tuple[Provider, str] | None:
    if settings.provider:
        return settings.provider, "the settings name it"
    if settings.base_url:
        return HOSTS.get(_host(settings.base_url), "openai"), "the settings give its address"
    if settings.api_key:
        start = settings.api_key.reveal()
        guessed = next((each for prefix, each in KEY_PREFIXES if start.startswith(prefix)), None)
        return guessed or "openai", "the settings hold a key for it"
    offered = dict(_offered(keys))
    if not offered:
        return None
    fitting = [each for shape, each in NAME_SHAPES if re.match(shape, settings.name)]
    provider = next((each for each in fitting if each in offered), next(iter(offered)))
    return provider, f"{offered[provider]} is set"


def _set_variables(names: Mapping[Provider, str], environment: Mapping[str, str]) -> dict[Provider, str]:
    given = {provider: environment.get(name, "").strip() for provider, name in names.items()}
    return {provider: value for provider, value in given.items() if value}


def _offered(keys: Keys) -> Iterator[tuple[Provider, str]]:
    """The providers that the environment names, the preferred one first, each with its variable."""
    for provider, name in KEY_NAMES.items():
        if provider in keys.api_keys:
            yield provider, name
        elif provider == "openai" and provider in keys.addresses:
            yield provider, ADDRESS_NAMES[provider]


def _key_for(base_url: str, provider: Provider, keys: Keys) -> str:
    """The key for a server.

    A key is sent only to its own server: the address set with it, or its provider's.
    """
    host = _host(base_url)
    beside = keys.addresses.get(provider)
    owner = provider if beside and host == _host(beside) else HOSTS.get(host)
    return keys.api_keys.get(owner, "") if owner else ""


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
