"""Asks servers for their models and what these can, and finds servers on this machine."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from holdfast.core.errors import ModelUnreachable
from holdfast.core.settings import Provider
from holdfast.models.model_size import stated_parameters
from holdfast.models.server import Server

PROBE_SECONDS = 0.5
LIST_SECONDS = 3.0
ASKED_AT_ONCE = 4
ANTHROPIC_VERSION = "2023-06-01"
Listed = list[dict[str, Any]]


async def responding_servers(
    candidates: Sequence[tuple[Provider, str]], seconds: float = PROBE_SECONDS
) -> list[tuple[Provider, str, Listed]]:
    """The servers that answer, with their models, in the given order. All are asked at the same time."""
    lists = await asyncio.gather(*(_models(provider, Server(url), seconds) for provider, url in candidates))
    asked = zip(candidates, lists, strict=True)
    return [(provider, url, listed) for (provider, url), listed in asked if listed is not None]


async def listed_models(
    provider: Provider, model: str, server: Server, seconds: float = LIST_SECONDS
) -> Listed:
    """The models of a server; raises `ModelUnreachable` when it gives no list."""
    listed = await _models(provider, server, seconds)
    if listed is None:
        raise ModelUnreachable(model or "the model", f"{server.display_url} gave no list of its models")
    return listed


async def with_abilities(
    provider: Provider, listed: Listed, server: Server, seconds: float = LIST_SECONDS
) -> Listed:
    """The list, with what a local server tells of its models only when it is asked for each."""
    if provider == "llamacpp" and len(listed) == 1:
        props = _mapping(await _json(f"{_root(server)}/props", server, seconds))
        told = {name: props[name] for name in ("modalities", "chat_template_caps") if name in props}
        if window := _llamacpp_window(props):
            told["context_length"] = window
        return [{**listed[0], **told}]
    if provider == "ollama":
        turns = asyncio.Semaphore(ASKED_AT_ONCE)
        loaded = await _ollama_models("ps", server, seconds)
        shown = await asyncio.gather(*(_shown(each, server, seconds, turns) for each in listed))
        return [_with_loaded_window(each, loaded) for each in shown]
    return listed


async def running_window(provider: Provider, name: str, server: Server) -> int | None:
    """The window that a local server uses for the model, which is often smaller than the model allows."""
    if provider == "llamacpp":
        return _llamacpp_window(_mapping(await _json(f"{_root(server)}/props", server, PROBE_SECONDS)))
    if provider == "ollama":
        return _loaded_window(name, await _ollama_models("ps", server, PROBE_SECONDS))
    return None


async def loaded_parameters(provider: Provider, name: str, server: Server) -> int | None:
    """How many parameters a model of Ollama has, whose list for other clients does not say it."""
    if provider != "ollama":
        return None
    installed = await _ollama_models("tags", server, PROBE_SECONDS)
    return next((stated_parameters(each) for each in installed if each.get("name") == name), None)


async def _shown(
    entry: dict[str, Any], server: Server, seconds: float, turns: asyncio.Semaphore
) -> dict[str, Any]:
    """The entry with what Ollama says that the model can."""
    async with turns:
        shown = _mapping(
            await _json(f"{_root(server)}/api/show", server, seconds, body={"model": entry.get("id")})
        )
    told = shown.get("capabilities")
    return {**entry, "capabilities": told} if isinstance(told, list) else entry


def _with_loaded_window(entry: dict[str, Any], loaded: Listed) -> dict[str, Any]:
    window = _loaded_window(str(entry.get("id")), loaded)
    return {**entry, "context_length": window} if window else entry


def _loaded_window(name: str, loaded: Listed) -> int | None:
    return _positive(next((each.get("context_length") for each in loaded if each.get("name") == name), None))


def _llamacpp_window(props: Mapping[str, Any]) -> int | None:
    return _positive(_mapping(props.get("default_generation_settings")).get("n_ctx"))


def _positive(size: object) -> int | None:
    return size if isinstance(size, int) and size > 0 else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _root(server: Server) -> str:
    parts = urlsplit(server.base_url)
    return f"{parts.scheme}://{parts.netloc}"


async def _ollama_models(which: str, server: Server, seconds: float) -> Listed:
    answer = _mapping(await _json(f"{_root(server)}/api/{which}", server, seconds))
    return [each for each in answer.get("models") or () if isinstance(each, dict)]


async def _models(provider: Provider, server: Server, seconds: float) -> Listed | None:
    base = server.base_url.rstrip("/")
    if provider == "anthropic":
        headers = {"anthropic-version": ANTHROPIC_VERSION}
        if server.key:
            headers["x-api-key"] = server.key.reveal()
        answer = await _json(f"{base}/v1/models?limit=1000", server, seconds, headers=headers)
    else:
        answer = await _json(f"{base}/models", server, seconds)
    data = answer.get("data") if isinstance(answer, Mapping) else None
    if not isinstance(data, list):
        return None
    return [model for model in data if isinstance(model, dict)]


async def _json(
    url: str,
    server: Server,
    seconds: float,
    *,
    headers: Mapping[str, str] | None = None,
    body: Mapping[str, Any] | None = None,
) -> object:
    """The JSON at a URL, posted to with a body; None when it is not JSON or does not arrive in time."""
    import httpx2

    from holdfast.process.http_transport import direct_transport

    if headers is None:
        headers = {"authorization": f"Bearer {server.key.reveal()}"} if server.key else {}
    # Loading certificates takes longer than the time limit of the probe, and plain HTTP needs none.
    secure = server.base_url.startswith("https://")
    remote = not server.is_local
    transport = direct_transport(verify=secure, proxies=remote)
    try:
        async with (
            asyncio.timeout(seconds),
            httpx2.AsyncClient(trust_env=remote, verify=secure, transport=transport) as client,
        ):
            method = "GET" if body is None else "POST"
            answer = await client.request(method, url, headers=headers, json=body)
            return answer.json() if answer.is_success else None
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, ValueError):
        return None
