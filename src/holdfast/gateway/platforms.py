"""The chat platforms that can be used: their configuration, and how an adapter is made from it.

A platform is a Python package with an entry point in the group `holdfast.chat_platforms` that names a
`Platform`. Those that come with Holdfast are found in the same way.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from holdfast.core.distribution import install_command
from holdfast.core.error_text import error_words
from holdfast.core.errors import InvalidInput
from holdfast.core.setting_checks import account_parts
from holdfast.core.settings import GatewaySettings
from holdfast.gateway.contract import Adapter
from holdfast.memory.config import ConfigField, ProviderConfig, missing_fields, resolve_config

GROUP = "holdfast.chat_platforms"


@dataclass(frozen=True, slots=True)
class Platform:
    """A chat platform: what an account on it needs, and the adapter for it."""

    title: str
    fields: tuple[ConfigField, ...]
    how_to: str
    """How a person gets an account for the bot, in a few plain sentences."""
    make: Callable[[ProviderConfig, Path], Adapter]
    """An adapter for the values of the fields; the folder is for what the adapter has to keep."""
    extra: str = ""
    """The extra of Holdfast that brings the libraries; empty: none is needed."""
    sign_in_fields: tuple[ConfigField, ...] = ()
    """What a person is asked for instead of `fields`, where these come from a sign-in."""
    sign_in: Callable[[ProviderConfig], Coroutine[Any, Any, Mapping[str, str]]] | None = None
    """Signs in with the `sign_in_fields`; returns the values of `fields`."""


def platform_names() -> list[str]:
    """The platforms that are installed."""
    return sorted({each.name for each in entry_points(group=GROUP)})


def require_accounts(settings: GatewaySettings) -> None:
    """Refuse to go on when no account is set up."""
    if not settings.accounts:
        known = " or ".join(platform_names())
        raise InvalidInput(f"no chat account is set up; run: holdfast gateway setup PLATFORM ({known})")


def find_platform(name: str) -> Platform:
    """The platform of this name; `InvalidInput` says which there are. Runs the code of its package."""
    found = _entry_point(name)
    platform = found.load()
    if not isinstance(platform, Platform):
        raise InvalidInput(f"{found.value} is not a Platform, so {name!r} can't be used")
    return platform


def is_built_in(name: str) -> bool:
    """Whether the platform comes with Holdfast; its code is not run."""
    return _entry_point(name).module.startswith("holdfast.")


def _entry_point(name: str) -> EntryPoint:
    found: Sequence[EntryPoint] = list(entry_points(group=GROUP, name=name))
    if not found:
        known = ", ".join(platform_names()) or "none"
        raise InvalidInput(f"there is no chat platform {name!r}; installed: {known}")
    return found[0]


def make_adapter(
    account: str, stored: Mapping[str, str], environment: Mapping[str, str], folder: Path
) -> Adapter:
    """The adapter of an account; `InvalidInput` says what is missing. Runs the code of its package."""
    name, platform_name = account_parts(account)
    platform = find_platform(platform_name)
    config = resolve_config(platform.fields, stored, environment)
    lacking = missing_fields(platform.fields, config)
    if lacking:
        keys = ", ".join(each.key for each in lacking)
        raise InvalidInput(f"{name} needs {keys}; run: holdfast gateway setup {account}")
    try:
        return platform.make(config, folder)
    except ModuleNotFoundError as cause:
        raise InvalidInput(
            f"{platform.title} needs a library that is not installed ({cause.name}); "
            f"install it with: {install_command(platform.extra)}"
        ) from cause
    except ValueError as cause:
        raise InvalidInput(f"{name}: {error_words(cause)}") from cause
