"""Asks servers which models they have, and this machine whether it runs any server at all."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from holdfast.core.errors import ModelUnreachable
from holdfast.core.settings import Provider
from holdfast.models.server import Server

PROBE_SECONDS = 0.5
LIST_SECONDS = 3.0


async def answering(
    candidates: Sequence[tuple[Provider, str]], seconds: float = PROBE_SECONDS
) -> list[tuple[Provider, str, list[dict[str, Any]]]]:
    """Which of these servers answer, with their models; asked all at once, given in the same order."""
    lists = await asyncio.gather(*(_models(Server(url), seconds) for _, url in candidates))
    asked = zip(candidates, lists, strict=True)
    return [(provider, url, listed) for (provider, url), listed in asked if listed is not None]


async def listed_models(model: str, server: Server, seconds: float = LIST_SECONDS) -> list[dict[str, Any]]:
    """The models that a server has; raises `ModelUnreachable` when it doesn't say."""
    listed = await _models(server, seconds)
    if listed is None:
        raise ModelUnreachable(model or "the model", f"{server.shown} gave no list of its models")
    return listed


async def running_window(provider: Provider, name: str, server: Server) -> int | None:
    """The window a local server runs the model with, which is often less than the model could have."""
    parts = urlsplit(server.base_url)
    root = f"{parts.scheme}://{parts.netloc}"
    if provider == "llamacpp":
        said = await _json(f"{root}/props", server, PROBE_SECONDS)
        settings = said.get("default_generation_settings") if isinstance(said, Mapping) else None
        size = settings.get("n_ctx") if isinstance(settings, Mapping) else None
    elif provider == "ollama":
        said = await _json(f"{root}/api/ps", server, PROBE_SECONDS)
        loaded = said.get("models") if isinstance(said, Mapping) else None
        models = [each for each in loaded or () if isinstance(each, Mapping)]
        size = next((each.get("context_length") for each in models if each.get("name") == name), None)
    else:
        return None
    return size if isinstance(size, int) and size > 0 else None


async def _models(server: Server, seconds: float) -> list[dict[str, Any]] | None:
    said = await _json(f"{server.base_url.rstrip('/')}/models", server, seconds)
    data = said.get("data") if isinstance(said, Mapping) else None
    if not isinstance(data, list):
        return None
    return [model for model in data if isinstance(model, dict)]


async def _json(url: str, server: Server, seconds: float) -> object:
    """What is at the address, if it is JSON that comes in time; None otherwise."""
    import httpx2

    headers = {"authorization": f"Bearer {server.key.reveal()}"} if server.key else {}
    # Certificates take longer to load than the probe may last, and plain HTTP needs none.
    secure = server.base_url.startswith("https://")
    try:
        async with (
            asyncio.timeout(seconds),
            httpx2.AsyncClient(trust_env=not server.is_local, verify=secure) as client,
        ):
            answer = await client.get(url, headers=headers)
            return answer.json() if answer.is_success else None
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, ValueError):
        return None
