"""Find chat adapters that installed packages offer, and make one from its configuration.

A package names its adapter by an entry point of the group `holdfast.chat_adapters`: a class, or a function
that returns an adapter. It gets those of the arguments `config` and `folder` that it has as parameters.
"""

import importlib
import inspect
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, cast

from holdfast.core.errors import HoldfastError
from holdfast.gateway.contract import Adapter, AdapterTraits
from holdfast.memory.config import ConfigField, declared_fields, missing_fields, resolve_config

ENTRY_POINTS = "holdfast.chat_adapters"
NOTHING: Mapping[str, str] = {}
METHODS = sorted(
    name for name, found in vars(Adapter).items() if inspect.isfunction(found) and name[0] != "_"
)
AdapterFactory = Callable[..., Any]


class AdapterInvalid(HoldfastError):
    """A chat adapter can't be used, and why."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"chat adapter {name!r}: {reason}")
        self.name = name
        self.reason = reason


def known_adapters() -> list[str]:
    """The names of the adapters that installed packages offer."""
    return sorted({each.name for each in entry_points(group=ENTRY_POINTS)})


def adapter_factory(name: str) -> AdapterFactory:
    """What makes the adapter of this name: an entry point, or `module:Name`."""
    module, colon, attribute = name.partition(":")
    try:
        if colon:
            return cast(AdapterFactory, getattr(importlib.import_module(module), attribute))
        found = next(iter(entry_points(group=ENTRY_POINTS, name=name)), None)
        if found is not None:
            return cast(AdapterFactory, found.load())
    except (ImportError, AttributeError) as cause:
        raise AdapterInvalid(name, f"it can't be imported: {cause}") from cause
    known = ", ".join(known_adapters()) or "none"
    raise AdapterInvalid(name, f"no installed package offers it (known: {known}); or give module:Name")


def adapter_fields(name: str, factory: AdapterFactory) -> list[ConfigField]:
    """The values that `get_config_schema` says a person must be asked for."""
    try:
        return declared_fields(factory)
    except ValueError as cause:
        raise AdapterInvalid(name, str(cause)) from cause


def make_adapter(
    name: str,
    folder: Path,
    values: Mapping[str, str] = NOTHING,
    environment: Mapping[str, str] = NOTHING,
) -> Adapter:
    """The adapter of this name; nothing is connected yet. `AdapterInvalid` says what is wrong."""
    factory = adapter_factory(name)
    fields = adapter_fields(name, factory)
    config = resolve_config(fields, values, environment)
    missing = ", ".join(each.key for each in missing_fields(fields, config))
    if missing:
        raise AdapterInvalid(name, f"it needs a value for {missing}")
    offered = {"config": config, "folder": folder}
    try:
        wanted = inspect.signature(factory).parameters.keys() & offered.keys()
        return check_adapter(name, factory(**{each: offered[each] for each in wanted}))
    except (TypeError, ValueError) as cause:
        raise AdapterInvalid(name, str(cause)) from cause


def check_adapter(name: str, adapter: object) -> Adapter:
    """The same object, as an adapter; `AdapterInvalid` when it lacks a part."""
    lacking = [each for each in METHODS if not callable(getattr(adapter, each, None))]
    if lacking:
        raise AdapterInvalid(name, f"it has no {', '.join(lacking)}")
    if not isinstance(getattr(adapter, "traits", None), AdapterTraits):
        raise AdapterInvalid(name, "its `traits` are no AdapterTraits")
    return cast(Adapter, adapter)
