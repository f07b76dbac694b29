"""Finding providers: by entry point, by `module:Class`, by `hermes:FOLDER`, or in a folder of plugins.

A provider that can't be imported, lacks a method or answers nonsense is reported by name and left out. It
never takes the program down. What makes a provider is called with those of `folder` (where it may keep
files), `clock` and `environment` (for a program it starts) that it asks for by name. One whose required
configuration is missing is left out too.
"""

import importlib
import importlib.util
import inspect
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from holdfast.core.errors import ProviderInvalid
from holdfast.memory.config import ConfigField, ProviderConfig, declared, missing, problems, resolve
from holdfast.memory.contract import MemoryProvider

logger = logging.getLogger(__name__)

HERMES = "hermes:"
"""Before the path of a plugin that was written for hermes-agent."""
ENTRY_POINTS = "holdfast.memory_providers"
MUST_HAVE = ("is_available", "initialize", "get_tool_schemas", "prefetch", "sync_turn", "shutdown")


Factory = Callable[..., object]
Configure = Callable[[str, Sequence[ConfigField]], ProviderConfig]
"""Finds the values of a provider's fields, by its name."""


@dataclass(frozen=True)
class Loaded:
    """The providers that can be used, and why the others can't."""

    providers: list[MemoryProvider] = field(default_factory=list)
    problems: list[ProviderInvalid] = field(default_factory=list)
    configs: dict[str, ProviderConfig] = field(default_factory=dict)


def load_providers(
    names: Sequence[str], plugins: Path | None = None, configure: Configure | None = None, **offered: object
) -> Loaded:
    """Load providers by their names, and every plugin in the folder `plugins`."""
    loaded = Loaded()
    for name in names:
        _try(loaded, name, partial(_named_class, name), configure, offered)
    for name, file in _plugin_files(plugins):
        _try(loaded, name, partial(_plugin_class, name, file), configure, offered)
    return loaded


def make_provider(name: str, plugins: Path | None = None, **offered: object) -> MemoryProvider:
    """One provider by its name, whether or not it is configured; raises `ProviderInvalid`."""
    files = dict(_plugin_files(plugins))
    try:
        factory = _plugin_class(name, files[name]) if name in files else _named_class(name)
        return shaped(name, _made(factory, offered))
    except ProviderInvalid:
        raise
    except BaseException as error:
        logger.warning("memory.provider_not_loaded", exc_info=True, extra={"provider": name})
        raise ProviderInvalid(name, f"{type(error).__name__}: {error}") from error


def _made(factory: Factory, offered: dict[str, object]) -> object:
    wanted = inspect.signature(factory).parameters.keys() & offered.keys() if offered else set()
    return factory(**{each: offered[each] for each in wanted})


def _try(
    loaded: Loaded,
    name: str,
    find: Callable[[], Factory],
    configure: Configure | None,
    offered: dict[str, object],
) -> None:
    try:
        provider = shaped(name, _made(find(), offered))
        config = _configured(name, provider, configure)
        checked(name, provider)
        _refuse_twin(loaded, name, provider)
    except ProviderInvalid as problem:
        loaded.problems.append(problem)
    except BaseException as error:  # a plugin may raise anything, even leave
        logger.warning("memory.provider_not_loaded", exc_info=True, extra={"provider": name})
        loaded.problems.append(ProviderInvalid(name, f"{type(error).__name__}: {error}"))
    else:
        loaded.providers.append(provider)
        loaded.configs[provider.name] = config


def _configured(name: str, provider: MemoryProvider, configure: Configure | None) -> ProviderConfig:
    fields = declared(provider)
    config = resolve(fields) if configure is None else configure(provider.name, fields)
    lacking = ", ".join(each.key for each in missing(fields, config))
    if lacking:
        raise ProviderInvalid(name, f"it needs {lacking}; run `holdfast memory setup {name}`")
    if wrong := problems(fields, config):
        raise ProviderInvalid(name, f"{'; '.join(wrong)}; run `holdfast memory setup {name}`")
    return config


def _refuse_twin(loaded: Loaded, name: str, provider: MemoryProvider) -> None:
    if provider.name in {each.name for each in loaded.providers}:
        raise ProviderInvalid(name, f"there is one called {provider.name!r} already")


def shaped(name: str, provider: Any) -> MemoryProvider:  # noqa: ANN401 - whatever a plugin made
    """The provider, if it has the methods and the name of one."""
    lacking = [each for each in MUST_HAVE if not callable(getattr(provider, each, None))]
    if lacking:
        raise ProviderInvalid(name, f"it lacks {', '.join(lacking)}")
    called = getattr(provider, "name", None)
    if not isinstance(called, str) or not called or not called.isprintable():
        raise ProviderInvalid(name, f"its name is {called!r:.80}, not a short text")
    usable: MemoryProvider = provider
    return usable


def checked(name: str, provider: Any) -> MemoryProvider:  # noqa: ANN401 - whatever a plugin made
    """The provider, if it keeps the contract as far as a look can tell."""
    usable = shaped(name, provider)
    schemas = provider.get_tool_schemas()
    if not isinstance(schemas, list) or not all(isinstance(each, dict) for each in schemas):
        raise ProviderInvalid(name, "get_tool_schemas should return a list of schemas")
    if provider.is_available() is not True:
        raise ProviderInvalid(name, "it says that it is not available here")
    return usable


def _named_class(name: str) -> Factory:
    if name.startswith(HERMES):
        return _hermes_plugin(Path(name.removeprefix(HERMES)))
    if ":" in name:
        module, _, attribute = name.partition(":")
        found: Factory = getattr(importlib.import_module(module), attribute)
        return found
    found_points = entry_points(group=ENTRY_POINTS, name=name)
    if not found_points:
        known = ", ".join(sorted(each.name for each in entry_points(group=ENTRY_POINTS))) or "none"
        raise ProviderInvalid(name, f"no installed package offers it (known: {known}); or give module:Class")
    loaded: Factory = next(iter(found_points)).load()
    return loaded


def _plugin_files(folder: Path | None) -> Iterator[tuple[str, Path]]:
    if folder is None or not folder.is_dir():
        return
    for place in sorted(folder.iterdir()):
        if place.name.startswith((".", "_")):
            continue
        if place.suffix == ".py":
            yield place.stem, place
        elif (place / "__init__.py").is_file():
            yield place.name, place / "__init__.py"


def _hermes_plugin(plugin: Path) -> Factory:
    """Makes a provider of a plugin that was written for hermes-agent."""

    def make(folder: Path, environment: Mapping[str, str]) -> object:
        from holdfast.memory.providers.hermes import HermesProvider

        return HermesProvider(plugin, folder=folder, environment=environment)

    return make


def _plugin_class(name: str, file: Path) -> Factory:
    """The one provider class that a plugin defines, or what makes one of a plugin for hermes-agent."""
    if file.name == "__init__.py" and _looks_hermes(file.parent):
        return _hermes_plugin(file.parent)
    module = _import_file(f"holdfast_plugins.{name}", file)
    classes = [
        each
        for _, each in inspect.getmembers(module, inspect.isclass)
        if issubclass(each, MemoryProvider) and each.__module__ == module.__name__
    ]
    if len(classes) != 1:
        found = ", ".join(each.__name__ for each in classes) or "none"
        raise ProviderInvalid(name, f"it should define one MemoryProvider class, and has {found}")
    return classes[0]


def _looks_hermes(folder: Path) -> bool:
    from holdfast.memory.providers.hermes import is_hermes_plugin

    return is_hermes_plugin(folder)


def _import_file(name: str, file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} can't be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
