"""Memory as the settings name it: the providers, each with its configuration, and their manager."""

import inspect
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.core.clock import SystemClock
from holdfast.core.errors import InvalidInput, ProviderInvalid
from holdfast.core.settings import Settings
from holdfast.memory import MemoryManager, MemoryProvider
from holdfast.memory.config import ConfigField, ProviderConfig, resolve
from holdfast.memory.config_store import ConfigStore
from holdfast.memory.contract import Complete
from holdfast.memory.loading import Loaded, load_providers, make_provider
from holdfast.sessions import SessionDB
from holdfast.wiring.basics import data_folder, settings_path


def config_store() -> ConfigStore:
    """Where the configuration of providers is: beside the settings, and secrets in the data folder."""
    return ConfigStore(settings_path().parent / "memory.toml", data_folder() / "secrets.toml")


def plugins_folder(settings: Settings) -> Path:
    """Where a person puts providers of their own."""
    return Path(settings.memory.plugins) if settings.memory.plugins else data_folder() / "memory_providers"


def load_providers_of(settings: Settings, environment: Mapping[str, str] | None = None) -> Loaded:
    """The memory providers that the settings name, without lanes: for looking, not for delivering."""
    store = config_store()
    variables = os.environ if environment is None else environment

    def configure(provider: str, fields: Sequence[ConfigField]) -> ProviderConfig:
        try:
            stored = store.read(provider) if fields else {}
        except InvalidInput as problem:
            raise ProviderInvalid(provider, str(problem)) from problem
        return resolve(fields, stored, variables)

    return load_providers(
        settings.memory.providers,
        plugins_folder(settings),
        configure,
        **_offered(variables),
    )


def make_provider_of(settings: Settings, name: str) -> MemoryProvider:
    """One provider by its name, configured or not: for setting it up."""
    return make_provider(name, plugins_folder(settings), **_offered(os.environ))


def is_plugin(settings: Settings, name: str) -> bool:
    """Whether a name is that of a plugin in the plugins' folder, which is used without being named."""
    folder = plugins_folder(settings)
    return (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file()


def _offered(environment: Mapping[str, str]) -> dict[str, object]:
    """What the maker of a provider may ask for by name."""
    return {"folder": data_folder(), "clock": SystemClock(), "environment": environment}


def build_memory(
    settings: Settings, store: SessionDB, complete: Complete | None = None
) -> tuple[MemoryManager, list[ProviderInvalid]]:
    """Memory with the providers that the settings name, and why others were left out.

    `complete` asks the model; a provider whose `initialize` names it gets it.
    """
    loaded = load_providers_of(settings)
    memory = MemoryManager(
        store,
        clock=SystemClock(),
        drain_seconds=settings.memory.drain_s,
        recall_seconds=settings.memory.recall_s,
    )
    for provider in loaded.providers:
        given: dict[str, Any] = {"config": loaded.configs[provider.name]}
        if complete is not None and _asks(provider):
            given["complete"] = complete
        memory.add_provider(provider, **given)
    return memory, loaded.problems


def _asks(provider: MemoryProvider) -> bool:
    """Whether a provider wants to ask the model; one that takes any argument doesn't by that alone."""
    return "complete" in inspect.signature(provider.initialize).parameters
