"""Loads providers: by entry point, by `module:Class`, by `hermes:FOLDER`, or from a folder of plugins.

A provider that can't be imported, lacks a method or returns invalid values is reported by its name and not
used. It never stops the program. Providers load in parallel, each through its gate. One that does not load in
time is a `LateProvider` and can be attached when it has loaded. The factory of a provider receives those of
the arguments `folder` (for its files), `clock` and `environment` (for programs it starts) that it has as
parameters. A provider whose required configuration is missing is not used either.
"""

import importlib
import importlib.util
import inspect
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for_all
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from holdfast.core.clock import SystemClock
from holdfast.core.error_text import error_text, error_words
from holdfast.core.errors import ProviderInvalid
from holdfast.memory.bounds import check_schemas
from holdfast.memory.config import (
    ConfigField,
    ProviderConfig,
    config_problems,
    declared_fields,
    missing_fields,
    resolve_config,
)
from holdfast.memory.contract import MemoryProvider
from holdfast.memory.provider_gate import GatedProvider, ProviderGate
from holdfast.memory.provider_requests import late_message

logger = logging.getLogger(__name__)

HERMES = "hermes:"
"""The prefix of the path of a plugin for hermes-agent."""
ENTRY_POINTS = "holdfast.memory_providers"
START_SECONDS = 5.0
MUST_HAVE = ("is_available", "initialize", "get_tool_schemas", "prefetch", "sync_turn", "shutdown")


Factory = Callable[..., object]
Configure = Callable[[str, Sequence[ConfigField]], ProviderConfig]
"""Finds the values of a provider's fields, by its name."""


@dataclass(frozen=True)
class LoadedProvider:
    """A provider that is created, configured and checked."""

    configured_name: str
    """Its name in the settings, or the name of the plugin's file."""
    gated: GatedProvider
    config: ProviderConfig


@dataclass(frozen=True)
class LateProvider:
    """A provider that did not load in time; the future `loading` completes when it has loaded."""

    configured_name: str
    loading: "Future[LoadedProvider]"
    problem: str


@dataclass(frozen=True)
class LoadResult:
    """The providers that can be used, and why the others can't."""

    ready: list[LoadedProvider] = field(default_factory=list)
    problems: list[ProviderInvalid] = field(default_factory=list)
    late: list[LateProvider] = field(default_factory=list)

    @property
    def left_out(self) -> list[str]:
        """Messages for the user about the providers that are not used now."""
        return [*map(str, self.problems), *(each.problem for each in self.late)]


def load_providers(
    names: Sequence[str],
    plugins: Path | None = None,
    configure: Configure | None = None,
    *,
    seconds: float = START_SECONDS,
    **offered: object,
) -> LoadResult:
    """Load providers by their names, and every plugin in the folder `plugins`, within so many seconds."""
    found = [(name, partial(_named_class, name)) for name in names]
    found += [(name, partial(_plugin_class, name, file)) for name, file in _plugin_files(plugins)]
    loading = [(name, _loading(name, find, configure, offered)) for name, find in found]
    wait_for_all([each for _, each in loading], seconds)
    loaded = LoadResult()
    for name, each in loading:
        _add(loaded, name, each, seconds)
    return loaded


def make_provider(
    name: str, plugins: Path | None = None, *, seconds: float = START_SECONDS, **offered: object
) -> GatedProvider:
    """One provider by its name, whether or not it is configured; raises `ProviderInvalid`."""
    files = dict(_plugin_files(plugins))
    gate = ProviderGate(name, SystemClock())

    def make() -> GatedProvider:
        factory = _plugin_class(name, files[name]) if name in files else _named_class(name)
        provider = check_shape(name, _made(factory, offered))
        return GatedProvider(provider.name, provider, gate)

    making = gate.submit("its construction", make, seconds)
    wait_for_all([making], seconds)
    if not making.done():
        raise ProviderInvalid(name, f"it did not answer in {seconds:g} s")
    if (error := making.exception()) is not None:
        raise _why(name, error) from error
    return making.result()


def _made(factory: Factory, offered: dict[str, object]) -> object:
    wanted = inspect.signature(factory).parameters.keys() & offered.keys() if offered else set()
    return factory(**{each: offered[each] for each in wanted})


def _loading(
    name: str, find: Callable[[], Factory], configure: Configure | None, offered: dict[str, object]
) -> "Future[LoadedProvider]":
    gate = ProviderGate(name, SystemClock())

    def load() -> LoadedProvider:
        provider = check_shape(name, _made(find(), offered))
        config = _configured(name, provider, configure)
        check_provider(name, provider)
        here = stores_on_host(provider, config)
        return LoadedProvider(name, GatedProvider(provider.name, provider, gate, here), config)

    return gate.submit("its construction", load)


def stores_on_host(provider: Any, config: ProviderConfig) -> bool:  # noqa: ANN401 - any object of a plugin
    """Whether a provider says that its memory is in files on this machine; one that can't say does not."""
    asked = getattr(provider, "stores_on_host", None)
    return callable(asked) and asked(config) is True


def _add(loaded: LoadResult, name: str, loading: "Future[LoadedProvider]", seconds: float) -> None:
    if not loading.done():
        logger.warning("memory.provider_is_late", extra={"provider": name, "seconds": seconds})
        loaded.late.append(LateProvider(name, loading, late_message(name, seconds)))
    elif (error := loading.exception()) is not None:
        loaded.problems.append(_why(name, error))
    elif (ready := loading.result()).gated.name in {each.gated.name for each in loaded.ready}:
        problem = f"there is one called {ready.gated.name!r} already"
        loaded.problems.append(ProviderInvalid(name, problem))
    else:
        loaded.ready.append(ready)


def _why(name: str, error: BaseException) -> ProviderInvalid:
    """The error of a provider as `ProviderInvalid`; a plugin may raise anything, even SystemExit."""
    if isinstance(error, ProviderInvalid):
        return error
    logger.warning("memory.provider_not_loaded", exc_info=error, extra={"provider": name})
    return ProviderInvalid(name, error_text(error))


def _configured(name: str, provider: MemoryProvider, configure: Configure | None) -> ProviderConfig:
    fields = declared_fields(provider)
    config = resolve_config(fields) if configure is None else configure(provider.name, fields)
    lacking = ", ".join(each.key for each in missing_fields(fields, config))
    if lacking:
        raise ProviderInvalid(name, f"it needs {lacking}; run `holdfast memory setup {name}`")
    if wrong := config_problems(fields, config):
        raise ProviderInvalid(name, f"{'; '.join(wrong)}; run `holdfast memory setup {name}`")
    return config


def check_shape(name: str, provider: Any) -> MemoryProvider:  # noqa: ANN401 - any object of a plugin
    """Check that an object has the methods and the name of a provider, and return it."""
    lacking = [each for each in MUST_HAVE if not callable(getattr(provider, each, None))]
    if lacking:
        raise ProviderInvalid(name, f"it lacks {', '.join(lacking)}")
    called = getattr(provider, "name", None)
    if not isinstance(called, str) or not called or not called.isprintable():
        raise ProviderInvalid(name, f"its name is {called!r:.80}, not a short text")
    usable: MemoryProvider = provider
    return usable


def check_provider(name: str, provider: Any) -> MemoryProvider:  # noqa: ANN401 - any object of a plugin
    """Check also its tool schemas and that it is available, and return the provider."""
    usable = check_shape(name, provider)
    try:
        check_schemas(usable.get_tool_schemas())
    except TypeError as problem:
        raise ProviderInvalid(name, error_words(problem)) from problem
    if usable.is_available() is not True:
        raise ProviderInvalid(name, "it says that it is not available here")
    return usable


def installed_providers() -> list[str]:
    """The names of the memory providers that installed packages offer."""
    return sorted({each.name for each in entry_points(group=ENTRY_POINTS)})


def _named_class(name: str) -> Factory:
    if name.startswith(HERMES):
        return _hermes_plugin(Path(name.removeprefix(HERMES)))
    if ":" in name:
        module, _, attribute = name.partition(":")
        found: Factory = getattr(importlib.import_module(module), attribute)
        return found
    found_points = entry_points(group=ENTRY_POINTS, name=name)
    if not found_points:
        known = ", ".join(installed_providers()) or "none"
        raise ProviderInvalid(name, f"no installed package offers it (known: {known}); or give module:Class")
    loaded: Factory = next(iter(found_points)).load()
    return loaded


def _plugin_files(folder: Path | None) -> Iterator[tuple[str, Path]]:
    if folder is None or not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "_")):
            continue
        if path.suffix == ".py":
            yield path.stem, path
        elif (path / "__init__.py").is_file():
            yield path.name, path / "__init__.py"


def _hermes_plugin(plugin: Path) -> Factory:
    """A factory for a plugin that was written for hermes-agent."""

    def make(folder: Path, environment: Mapping[str, str]) -> object:
        from holdfast.providers.hermes import HermesProvider

        return HermesProvider(plugin, folder=folder, environment=environment)

    return make


def _plugin_class(name: str, file: Path) -> Factory:
    """The one provider class of a plugin, or the factory for a plugin of hermes-agent."""
    from holdfast.providers.hermes import is_hermes_plugin

    if file.name == "__init__.py" and is_hermes_plugin(file.parent):
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


def _import_file(name: str, file: Path) -> ModuleType:
    parent = name.rpartition(".")[0]
    if parent not in sys.modules:
        # `from . import x` makes Python look for the parent of the package.
        sys.modules[parent] = ModuleType(parent)
        sys.modules[parent].__path__ = []
    _forget(name)
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} can't be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        _forget(name)
        raise
    return module


def _forget(package: str) -> None:
    """Unload a package with its modules: the next import reads its files as they are then."""
    for name in list(sys.modules):
        if name == package or name.startswith(f"{package}."):
            sys.modules.pop(name, None)
