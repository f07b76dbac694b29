"""Asks servers for their models, and finds servers on this machine."""

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


async def responding_servers(
    candidates: Sequence[tuple[Provider, str]], seconds: float = PROBE_SECONDS
) -> list[tuple[Provider, str, list[dict[str, Any]]]]:
    """The servers that answer, with their models, in the given order. All are asked at the same time."""
    lists = await asyncio.gather(*(_models(Server(url), seconds) for _, url in candidates))
    asked = zip(candidates, lists, strict=True)
    return [(provider, url, listed) for (provider, url), listed in asked if listed is not None]


async def listed_models(model: str, server: Server, seconds: float = LIST_SECONDS) -> list[dict[str, Any]]:
    """The models of a server; raises `ModelUnreachable` when it gives no list."""
    listed = await _models(server, seconds)
    if listed is None:
        raise ModelUnreachable(model or "the model", f"{server.display_url} gave no list of its models")
    return listed


async def running_window(provider: Provider, name: str, server: Server) -> int | None:
    """The window that a local server uses for the model, which is often smaller than the model allows."""
    if provider == "llamacpp":
        answer = await _json(f"{_root(server)}/props", server, PROBE_SECONDS)
        settings = answer.get("default_generation_settings") if isinstance(answer, Mapping) else None
        size = settings.get("n_ctx") if isinstance(settings, Mapping) else None
    elif provider == "ollama":
        answer = await _json(f"{_root(server)}/api/ps", server, PROBE_SECONDS)
        loaded = answer.get("models") if isinstance(answer, Mapping) else None
        models = [each for each in loaded or () if isinstance(each, Mapping)]
        size = next((each.get("context_length") for each in models if each.get("name") == name), None)
    else:
        return None
    return size if isinstance(size, int) and size > 0 else None


async def loaded_parameters(provider: Provider, name: str, server: Server) -> int | None:
    """How many parameters a model of Ollama has, whose list for other clients does not say it."""
    if provider != "ollama":
        return None
    answer = await _json(f"{_root(server)}/api/tags", server, PROBE_SECONDS)
    installed = answer.get("models") if isinstance(answer, Mapping) else None
    models = [each for each in installed or () if isinstance(each, Mapping)]
    return next((stated_parameters(each) for each in models if each.get("name") == name), None)


def _root(server: Server) -> str:
    parts = urlsplit(server.base_url)
    return f"{parts.scheme}://{parts.netloc}"


async def _models(server: Server, seconds: float) -> list[dict[str, Any]] | None:
    answer = await _json(f"{server.base_url.rstrip('/')}/models", server, seconds)
    data = answer.get("data") if isinstance(answer, Mapping) else None
    if not isinstance(data, list):
        return None
    return [model for model in data if isinstance(model, dict)]


async def _json(url: str, server: Server, seconds: float) -> object:
    """The JSON at a URL; None when it is not JSON or does not arrive in time."""
    import httpx2

    from holdfast.process.http_transport import direct_transport

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
            answer = await client.get(url, headers=headers)
            return answer.json() if answer.is_success else None
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, ValueError):
        return None
