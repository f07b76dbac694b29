"""Builds the concrete objects from the settings. Only this room reads the environment and knows every class.

Read `contract.py` first: it lists what each file builds. Import `settings_host.py` and `graceful_stop.py`
only where a host runs; they load every room.
"""

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
]
