"""Builds the concrete objects from the settings; alone reads the environment and knows every class.

`basics.py` has what every command needs; `hosting.py` builds the host, and is imported where one is run;
`leaving.py` runs one for a command, and is the way out of it.
"""

from holdfast.wiring.basics import (
    build_memory,
    config_folder,
    data_folder,
    editor,
    existing_store,
    exit_watchdog,
    list_models,
    load_providers_of,
    load_settings,
    log_folder,
    open_model,
    open_store,
    settings_path,
)

__all__ = [
    "build_memory",
    "config_folder",
    "data_folder",
    "editor",
    "existing_store",
    "exit_watchdog",
    "list_models",
    "load_providers_of",
    "load_settings",
    "log_folder",
    "open_model",
    "open_store",
    "settings_path",
]
