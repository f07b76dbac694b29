"""Chooses a model from the settings and the keys. Pure functions.

The order is: the settings, a key in the environment, a server on this machine, the embedded model.
`model_list.py` reads the lists that servers give of their models; `open_model.py` asks for the list and opens
the model that was chosen.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from holdfast.core.errors import ModelMissing, SettingsInvalid
from holdfast.core.secret import Secret
from holdfast.core.server_url import server_url_problem
from holdfast.core.settings import ModelSettings, Provider

OPENAI_URL = "https://api.openai.com/v1"
ANTHROPIC_URL = "https://api.anthropic.com"
OPENROUTER_URL = "https://openrouter.ai/api/v1"
OLLAMA_URL = "http://127.0.0.1:11434/v1"
LLAMACPP_URL = "http://127.0.0.1:8080/v1"

ADDRESSES: Mapping[Provider, str] = {
    "openai": OPENAI_URL,
    "anthropic": ANTHROPIC_URL,
    "openrouter": OPENROUTER_URL,
    "ollama": OLLAMA_URL,
    "llamacpp": LLAMACPP_URL,
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
ADDRESS_NAMES = ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL")
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
    """Keys and addresses from environment variables of other programs."""

    openai: str = ""
    anthropic: str = ""
    openrouter: str = ""
    openai_url: str = ""
    anthropic_url: str = ""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Keys":
        """Read them from variables; blank ones are ignored. Raises `SettingsInvalid` for a bad address."""
        addresses = [environment.get(name, "").strip() for name in ADDRESS_NAMES]
        problems = [
            (name, server_url_problem(url))
            for name, url in zip(ADDRESS_NAMES, addresses, strict=True)
            if url and server_url_problem(url)
        ]
        if problems:
            raise SettingsInvalid(problems)
        return cls(*(environment.get(name, "").strip() for name in KEY_NAMES.values()), *addresses)

    def for_provider(self, provider: Provider) -> str:
        given = {"openai": self.openai, "anthropic": self.anthropic, "openrouter": self.openrouter}
        return given.get(provider, "")


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
    base_url = settings.base_url or _address(provider, keys)
    owner = HOSTS.get(_host(base_url))
    key = settings.api_key or Secret(_key_for(base_url, provider, keys))
    if not key and owner is not None:
        raise ModelMissing(f"{owner} needs a key: set {KEY_NAMES[owner]}, or model.api_key in the settings")
    default = DEFAULT_NAMES.get(owner or provider, "") if owner or provider == "anthropic" else ""
    return ModelChoice(provider, settings.name or default, reason, base_url, key or None)


def local_choice(settings: ModelSettings, provider: Provider, base_url: str) -> ModelChoice:
    """A server on this machine that has answered."""
    return ModelChoice(provider, settings.name, f"{provider} answers on this machine", base_url)


def embedded_choice() -> ModelChoice:
    """The choice when there is no key and no server."""
    return ModelChoice("embedded", "", "there is no key and no local server")


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


def _offered(keys: Keys) -> Iterator[tuple[Provider, str]]:
    if keys.openai:
        yield "openai", "OPENAI_API_KEY"
    elif keys.openai_url:
        yield "openai", "OPENAI_BASE_URL"
    if keys.anthropic:
        yield "anthropic", "ANTHROPIC_API_KEY"
    if keys.openrouter:
        yield "openrouter", "OPENROUTER_API_KEY"


def _address(provider: Provider, keys: Keys) -> str:
    given = {"openai": keys.openai_url, "anthropic": keys.anthropic_url}.get(provider, "")
    return given or ADDRESSES[provider]


def _key_for(base_url: str, provider: Provider, keys: Keys) -> str:
    """The key for a server.

    A key is sent only to its own server: the address set with it, or its provider's.
    """
    host = _host(base_url)
    beside = {"openai": keys.openai_url, "anthropic": keys.anthropic_url}.get(provider, "")
    if beside and host == _host(beside):
        return keys.for_provider(provider)
    owner = HOSTS.get(host)
    return keys.for_provider(owner) if owner else ""


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
