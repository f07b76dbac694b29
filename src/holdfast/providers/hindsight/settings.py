"""The configuration fields of the Hindsight provider, and their checked values."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.core.errors import InvalidInput
from holdfast.core.secret import Secret
from holdfast.memory.config import ProviderConfig

CLOUD_URL = "https://api.hindsight.vectorize.io"
SERVER_URL = "http://127.0.0.1:8888"
BUDGETS = ["low", "mid", "high"]
LOCAL = {"mode": "local"}

SCHEMA: list[dict[str, Any]] = [
    {
        "key": "mode",
        "description": "cloud, a server you run, or a local one that Holdfast starts and stops",
        "choices": ["cloud", "server", "local"],
        "default": "server",
        "required": True,
    },
    {
        "key": "url",
        "description": "the address of your server",
        "default": SERVER_URL,
        "env_var": "HINDSIGHT_API_URL",
        "required": True,
        "when": {"mode": "server"},
    },
    {
        "key": "api_key",
        "description": "the key of the cloud account",
        "secret": True,
        "required": True,
        "env_var": "HINDSIGHT_API_KEY",
        "url": "https://ui.hindsight.vectorize.io",
        "when": {"mode": "cloud"},
    },
    {
        "key": "cloud_url",
        "description": "the address that the account's page shows, if it is another",
        "default": CLOUD_URL,
        "when": {"mode": "cloud"},
    },
    {
        "key": "server_key",
        "description": "the key of your server, if it wants one",
        "secret": True,
        "env_var": "HINDSIGHT_API_KEY",
        "when": {"mode": "server"},
    },
    {"key": "bank", "description": "the name of the memory bank", "default": "holdfast"},
    {
        "key": "per",
        "description": "one bank for the user, or one for each project (the folder it runs in)",
        "choices": ["user", "project"],
        "default": "user",
    },
    {"key": "tags", "description": "tags for what is retained, with commas", "default": ""},
    {
        "key": "recall_tags",
        "description": "recall only what has one of these tags, with commas",
        "default": "",
    },
    {
        "key": "recall_budget",
        "description": "how hard to look before a turn",
        "choices": BUDGETS,
        "default": "low",
    },
    {"key": "recall_tokens", "description": "how much to recall, in tokens", "default": "1500"},
    {
        "key": "reflect_budget",
        "description": "how hard to think when the agent reflects",
        "choices": BUDGETS,
        "default": "mid",
    },
    {
        "key": "timeout_s",
        "description": "how long one request may take, in seconds",
        "default": "30",
    },
    {
        "key": "settle_s",
        "description": "how long to wait for a retained turn to be processed before asking again later",
        "default": "120",
    },
    {
        "key": "command",
        "description": "the server's program, or the path to it",
        "default": "hindsight-api",
        "when": LOCAL,
    },
    {
        "key": "llm_provider",
        "description": "what it extracts facts with: openai, anthropic, gemini, ollama, none …",
        "default": "openai",
        "when": LOCAL,
    },
    {"key": "llm_base_url", "description": "the model's address; empty: the provider's own", "when": LOCAL},
    {"key": "llm_model", "description": "the model's name; empty: the server's choice", "when": LOCAL},
    {"key": "llm_key", "description": "the model's key", "secret": True, "when": LOCAL},
    {
        "key": "embeddings_base_url",
        "description": "an OpenAI-compatible address for embeddings; empty: the model's, if that is openai",
        "when": LOCAL,
    },
    {"key": "embeddings_model", "description": "the embedding model's name", "when": LOCAL},
    {"key": "embeddings_key", "description": "the key for embeddings", "secret": True, "when": LOCAL},
    {
        "key": "database_url",
        "description": "a PostgreSQL database for the local server; empty: one that it keeps itself",
        "when": LOCAL,
    },
]


@dataclass(frozen=True, slots=True)
class HindsightSettings:
    """The checked values."""

    url: str
    key: Secret
    bank: str
    tags: tuple[str, ...]
    recall_tags: tuple[str, ...]
    recall_budget: str
    recall_tokens: int
    reflect_budget: str
    timeout_s: float
    settle_s: float
    local: ProviderConfig | None = None
    """The values for the server that Holdfast runs itself, if it does."""


def read_settings(config: ProviderConfig, project: Path) -> HindsightSettings:
    """The values for a project folder; raises `InvalidInput` that names an invalid value."""
    mode = config.text("mode", "server")
    try:
        numbers = {
            key: config.number(key, default)
            for key, default in (("recall_tokens", 1500.0), ("timeout_s", 30.0), ("settle_s", 120.0))
        }
    except ValueError as cause:
        raise InvalidInput(f"hindsight: {cause}") from None
    for key, value in numbers.items():
        if not 0 < value < float("inf"):
            raise InvalidInput(f"hindsight: {key} must be above 0, not {value:g}")
    return HindsightSettings(
        url=config.text("cloud_url", CLOUD_URL) if mode == "cloud" else config.text("url", SERVER_URL),
        key=config.secret("api_key") if mode == "cloud" else config.secret("server_key"),
        bank=bank_name(config.text("bank", "holdfast"), project if config.text("per") == "project" else None),
        tags=_listed(config.text("tags")),
        recall_tags=_listed(config.text("recall_tags")),
        recall_budget=config.text("recall_budget", "low"),
        recall_tokens=int(numbers["recall_tokens"]),
        reflect_budget=config.text("reflect_budget", "mid"),
        timeout_s=numbers["timeout_s"],
        settle_s=numbers["settle_s"],
        local=config if mode == "local" else None,
    )


def bank_name(name: str, project: Path | None) -> str:
    """The id of a bank. Characters like a slash, which would change the URL, are replaced."""
    if project is not None:
        digest = hashlib.sha256(str(project).encode("utf-8", "replace")).hexdigest()[:8]
        name = f"{name}-{project.name}-{digest}"
    return re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII).strip("-.") or "holdfast"


def _listed(text: str) -> tuple[str, ...]:
    return tuple(each for part in text.split(",") if (each := part.strip()))
