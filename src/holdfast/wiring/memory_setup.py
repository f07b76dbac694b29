"""Builds memory from the settings: the providers, each with its configuration, and their manager."""

import inspect
import logging
import os
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.core.clock import SystemClock
from holdfast.core.error_text import error_words
from holdfast.core.errors import InvalidInput, MemoryClosed, ProviderInvalid, ProviderUnavailable
from holdfast.core.settings import Settings
from holdfast.memory import MemoryManager, MemoryProvider
from holdfast.memory.config import ConfigField, ProviderConfig, resolve_config
from holdfast.memory.contract import TextCompletion
from holdfast.memory.provider_gate import GatedProvider, gate_provider
from holdfast.providers.config_store import ConfigStore
from holdfast.providers.loader import (
    HERMES,
    LateProvider,
    LoadedProvider,
    LoadResult,
    load_providers,
    make_provider,
    stores_on_host,
)
from holdfast.sessions import SessionDB
from holdfast.wiring.file_rights import others_can_write, unsafe_code
from holdfast.wiring.folders import data_folder
from holdfast.wiring.settings_loader import settings_path

logger = logging.getLogger(__name__)


def config_store() -> ConfigStore:
    """The configuration of providers: beside the settings file, with secrets in the data folder."""
    return ConfigStore(settings_path().parent / "memory.toml", data_folder() / "secrets.toml")


def chat_config_store() -> ConfigStore:
    """The configuration of chat accounts: beside the settings file, with secrets in the data folder."""
    return ConfigStore(settings_path().parent / "gateway.toml", data_folder() / "secrets.toml")


def plugins_folder(settings: Settings) -> Path:
    """The folder for a person's own providers."""
    return Path(settings.memory.plugins) if settings.memory.plugins else data_folder() / "memory_providers"


def load_providers_of(settings: Settings, own_folder: Path | None = None) -> LoadResult:
    """Load the memory providers that the settings name, without lanes: for reading, not for deliveries.

    A program passes its `own_folder` for their files: they have none of the person's memory, and no plugin of
    the person's folder is loaded.
    """
    store = config_store()

    def configure(provider: str, fields: Sequence[ConfigField]) -> ProviderConfig:
        for file in (store.settings, store.secrets):
            if unsafe := others_can_write(file):
                raise ProviderInvalid(provider, f"{file} {unsafe}")
        try:
            stored = store.read(provider) if fields else {}
        except InvalidInput as problem:
            raise ProviderInvalid(provider, str(problem)) from problem
        return resolve_config(fields, stored, os.environ)

    unsafe = [problem for name in settings.memory.providers if (problem := _unsafe_named(name))]
    refused = {problem.provider for problem in unsafe}
    unsafe_plugins = _unsafe_plugins(settings) if own_folder is None else []
    loaded = load_providers(
        [name for name in settings.memory.providers if name not in refused],
        plugins_folder(settings) if own_folder is None and not unsafe_plugins else None,
        configure,
        seconds=settings.memory.start_s,
        **_offered(own_folder),
    )
    loaded.problems.extend(unsafe + unsafe_plugins)
    return loaded


def _unsafe_plugins(settings: Settings) -> list[ProviderInvalid]:
    """Why the plugins are not run: code that everybody can write may come from anybody."""
    unsafe = unsafe_code(plugins_folder(settings))
    return [ProviderInvalid("plugins", f"{unsafe}. No plugin was run")] if unsafe else []


def _unsafe_named(name: str) -> ProviderInvalid | None:
    """Why a provider that the settings name by its folder is not run."""
    unsafe = unsafe_code(Path(name.removeprefix(HERMES))) if name.startswith(HERMES) else ""
    return ProviderInvalid(name, f"{unsafe}. It was not run") if unsafe else None


def make_provider_of(settings: Settings, name: str) -> GatedProvider:
    """One provider by its name, configured or not, for setting it up."""
    if unsafe := _unsafe_named(name):
        raise unsafe
    if unsafe_plugins := _unsafe_plugins(settings):
        raise unsafe_plugins[0]
    folder, seconds = plugins_folder(settings), settings.memory.start_s
    return make_provider(name, folder, seconds=seconds, **_offered())


def is_plugin(settings: Settings, name: str) -> bool:
    """Whether this is a plugin in the plugins folder. Such a plugin is used without a setting."""
    folder = plugins_folder(settings)
    return (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file()


def _offered(own_folder: Path | None = None) -> dict[str, object]:
    """The arguments that the factory of a provider may take by name."""
    return {"folder": own_folder or data_folder(), "clock": SystemClock(), "environment": os.environ}


def build_memory(
    settings: Settings,
    store: SessionDB,
    complete: TextCompletion | None = None,
    own_folder: Path | None = None,
) -> tuple[MemoryManager, list[ProviderInvalid]]:
    """Build memory with the providers that the settings name, and list why others were left out. Blocks.

    `complete` asks the model; a provider gets it when its `initialize` has a parameter of this name. A
    provider that does not answer in time is expected: deliveries to it are stored from the start, and it is
    added when it answers.
    """
    loaded = load_providers_of(settings, own_folder)
    memory = MemoryManager(
        store,
        clock=SystemClock(),
        drain_seconds=settings.memory.drain_s,
        recall_seconds=settings.memory.recall_s,
    )
    for ready in loaded.ready:
        _attach(memory, ready, complete)
    for late in loaded.late:
        memory.add_pending(late.configured_name, late.problem)
        late.loading.add_done_callback(partial(_attach_late, memory, late, complete))
    return memory, loaded.problems


def attach_object(memory: MemoryManager, provider: MemoryProvider, complete: TextCompletion | None) -> None:
    """Add a provider that a program has made and configured itself. Blocks."""
    gated, config = gate_provider(provider, SystemClock()), resolve_config((), {}, {})
    with suppress(ProviderUnavailable):
        here = gated.answer("stores_on_host", partial(stores_on_host, provider, config))
        gated = replace(gated, stores_on_host=here)
    _attach(memory, LoadedProvider(gated.name, gated, config), complete)


def _attach(memory: MemoryManager, ready: LoadedProvider, complete: TextCompletion | None) -> None:
    given: dict[str, Any] = {"config": ready.config}
    if complete is not None and _wants_model(ready.gated.provider):
        given["complete"] = complete
    memory.attach(ready.gated, expected=ready.configured_name, given=given)


def _attach_late(
    memory: MemoryManager,
    late: LateProvider,
    complete: TextCompletion | None,
    loading: "Future[LoadedProvider]",
) -> None:
    """Add a provider that answered late. Runs on the provider's thread."""
    try:
        ready = loading.result()
        _attach(memory, ready, complete)
    except MemoryClosed:
        logger.info("memory.provider_came_after_the_end", extra={"provider": late.configured_name})
    except BaseException as error:
        logger.warning("memory.provider_not_loaded", exc_info=True, extra={"provider": late.configured_name})
        memory.mark_unusable(late.configured_name, error_words(error))
    else:
        logger.info("memory.provider_taken_in", extra={"provider": ready.gated.name})


def _wants_model(provider: MemoryProvider) -> bool:
    """Whether a provider has a parameter `complete`; `**kwargs` alone does not count."""
    return "complete" in inspect.signature(provider.initialize).parameters
