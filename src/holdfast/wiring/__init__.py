"""Builds the concrete objects from the settings. It alone reads the environment and knows every class.

Read `contract.py` first: it lists what each file builds. Each name here is loaded when it is first used: a
prompt that needs the settings does not wait for the store and the memory providers.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.wiring.folders import config_folder, data_folder, log_folder
    from holdfast.wiring.memory_setup import (
        build_memory,
        chat_config_store,
        config_store,
        is_plugin,
        load_providers_of,
        make_provider_of,
    )
    from holdfast.wiring.model_opener import list_models, open_model
    from holdfast.wiring.settings_loader import editor, environment, load_settings, settings_path
    from holdfast.wiring.store_opener import (
        existing_store,
        exit_watchdog,
        file_history,
        forget_outputs,
        has_store,
        open_store,
        usual_store,
    )

__all__ = [
    "build_memory",
    "chat_config_store",
    "config_folder",
    "config_store",
    "data_folder",
    "editor",
    "environment",
    "existing_store",
    "exit_watchdog",
    "file_history",
    "forget_outputs",
    "has_store",
    "is_plugin",
    "list_models",
    "load_providers_of",
    "load_settings",
    "log_folder",
    "make_provider_of",
    "open_model",
    "open_store",
    "settings_path",
    "usual_store",
]

_FILES = {
    "folders": ("config_folder", "data_folder", "log_folder"),
    "memory_setup": (
        *("build_memory", "chat_config_store", "config_store", "is_plugin"),
        *("load_providers_of", "make_provider_of"),
    ),
    "model_opener": ("list_models", "open_model"),
    "settings_loader": ("editor", "environment", "load_settings", "settings_path"),
    "store_opener": (
        *("existing_store", "exit_watchdog", "file_history", "forget_outputs", "has_store", "open_store"),
        "usual_store",
    ),
}

if not TYPE_CHECKING:  # A type checker that saw this function would accept any name.

    def __getattr__(name: str) -> object:
        file = next((file for file, names in _FILES.items() if name in names), None)
        if file is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{file}"), name)
