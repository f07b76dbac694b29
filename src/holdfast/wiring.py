"""Builds the concrete objects from the settings; alone reads the environment and knows every class.

A setting `section.key` is the variable `HOLDFAST_SECTION_KEY`: `HOLDFAST_STORE_URL`,
`HOLDFAST_EXIT_WATCHDOG_S`. The tree itself is in `core/settings.py`.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from platformdirs import user_data_path
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from holdfast.core.clock import SystemClock
from holdfast.core.errors import ProviderInvalid, SettingsInvalid
from holdfast.core.settings import Settings
from holdfast.memory import MemoryManager
from holdfast.memory.loading import load_providers
from holdfast.process import ExitWatchdog
from holdfast.sessions import SessionDB

PREFIX = "HOLDFAST_"
# Variables for the project's own tests, not settings of the program.
NOT_SETTINGS = "HOLDFAST_TEST_"


def load_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings from the environment; raises `SettingsInvalid` with the variable's name."""
    given = {
        name: value
        for name, value in (os.environ if environment is None else environment).items()
        if name.startswith(PREFIX) and not name.startswith(NOT_SETTINGS)
    }
    places = {
        f"{PREFIX}{section}_{key}".upper(): (section, key) for section, part in Settings() for key, _ in part
    }
    unknown = sorted(given.keys() - places.keys())
    if unknown:
        raise SettingsInvalid([(name, "there is no such setting") for name in unknown])
    tree: dict[str, dict[str, str]] = {}
    for name, value in given.items():
        section, key = places[name]
        tree.setdefault(section, {})[key] = value
    try:
        return Settings.model_validate(tree)
    except ValidationError as cause:
        raise SettingsInvalid([_problem(found) for found in cause.errors()]) from None


def _problem(found: ErrorDetails) -> tuple[str, str]:
    return PREFIX + "_".join(str(part) for part in found["loc"]).upper(), found["msg"]


def data_folder() -> Path:
    """Where Holdfast keeps a person's data."""
    return user_data_path("holdfast", appauthor=False)


def open_store(settings: Settings, *, create: bool = True) -> SessionDB:
    """The session store that the settings name; `create=False` refuses to start a new one."""
    url = settings.store.url or f"sqlite:///{data_folder() / 'holdfast.db'}"
    return SessionDB.open(url, patience=settings.store.patience_s, create=create)


def build_memory(settings: Settings, store: SessionDB) -> tuple[MemoryManager, list[ProviderInvalid]]:
    """Memory with the providers that the settings name, and why others were left out."""
    clock, folder = SystemClock(), data_folder()
    plugins = Path(settings.memory.plugins) if settings.memory.plugins else folder / "memory_providers"
    loaded = load_providers(settings.memory.providers, plugins, folder=folder, clock=clock)
    memory = MemoryManager(
        store,
        clock=clock,
        drain_seconds=settings.memory.drain_s,
        recall_seconds=settings.memory.recall_s,
    )
    for provider in loaded.providers:
        memory.add_provider(provider)
    return memory, loaded.problems


def exit_watchdog(settings: Settings) -> ExitWatchdog:
    """The watchdog that ends a clean-up which hangs."""
    return ExitWatchdog(settings.exit.watchdog_s, clock=SystemClock())


@contextmanager
def existing_store(settings: Settings) -> Iterator[SessionDB]:
    """The store for one command: it must be there, and closing it can't hang."""
    db = open_store(settings, create=False)
    try:
        yield db
    finally:
        watchdog = exit_watchdog(settings)
        watchdog.arm(lambda: f"closing {db.location}")
        db.close()
        watchdog.disarm()
