"""The configuration fields of the OpenViking provider, and their checked values."""

from dataclasses import dataclass
from typing import Any

from holdfast.core.errors import InvalidInput
from holdfast.core.secret import Secret
from holdfast.memory.config import ProviderConfig

SERVER_URL = "http://127.0.0.1:1933"

SCHEMA: list[dict[str, Any]] = [
    {
        "key": "url",
        "description": "the address of the server",
        "default": SERVER_URL,
        "env_var": "OPENVIKING_ENDPOINT",
        "required": True,
    },
    {
        "key": "api_key",
        "description": "the server's key, if it wants one",
        "secret": True,
        "env_var": "OPENVIKING_API_KEY",
    },
    {"key": "account", "description": "the account, for a key that serves several", "default": ""},
    {"key": "user", "description": "the user, for a key that serves several", "default": ""},
    {"key": "recall_limit", "description": "how many memories to recall at most", "default": "8"},
    {"key": "timeout_s", "description": "how long one request may take, in seconds", "default": "30"},
]


@dataclass(frozen=True, slots=True)
class OpenVikingSettings:
    """The checked values."""

    url: str
    key: Secret
    account: str
    user: str
    recall_limit: int
    timeout_s: float


def read_settings(config: ProviderConfig) -> OpenVikingSettings:
    """The values; raises `InvalidInput` that names an invalid value."""
    try:
        limit, timeout = config.number("recall_limit", 8.0), config.number("timeout_s", 30.0)
    except ValueError as cause:
        raise InvalidInput(f"openviking: {cause}") from None
    if not 1 <= limit < float("inf") or not 0 < timeout < float("inf"):
        raise InvalidInput("openviking: recall_limit must be 1 or more, and timeout_s above 0")
    return OpenVikingSettings(
        url=config.text("url", SERVER_URL).rstrip("/"),
        key=config.secret("api_key"),
        account=config.text("account"),
        user=config.text("user"),
        recall_limit=int(limit),
        timeout_s=timeout,
    )
