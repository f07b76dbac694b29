"""Builds the concrete objects from the settings; alone reads the environment and knows every class.

`basics.py` has what every command needs, `memory.py` the providers; `hosting.py` builds the host, and is
imported where one is run; `leaving.py` runs one for a command, and is the way out of it.
"""

from holdfast.wiring.basics import (
    config_folder,
    data_folder,
    editor,
    environment,
    existing_store,
    exit_watchdog,
    forget_outputs,
    list_models,
    load_settings,
    log_folder,
    open_model,
    open_store,
    settings_path,
)
from holdfast.wiring.memory import (
    build_memory,
    config_store,
    is_plugin,
    load_providers_of,
    make_provider_of,
)

__all__ = [
    "build_memory",
    "config_folder",
    "config_store",
    "data_folder",
    "editor",
    "environment",
    "existing_store",
    "exit_watchdog",
    "forget_outputs",
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
