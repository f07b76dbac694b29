"""The folders in which Holdfast keeps a person's data, settings and logs."""

from pathlib import Path

from platformdirs import user_cache_path, user_config_path, user_data_path, user_log_path, user_state_path


def data_folder() -> Path:
    """The folder for conversations, memory, skills and secrets."""
    return user_data_path("holdfast", appauthor=False)


def scopes_folder() -> Path:
    """The folder for the workspaces of people other than the owner.

    It stands beside the data folder, which no tool and no command may use.
    """
    return data_folder().with_name(f"{data_folder().name}-scopes")


def config_folder() -> Path:
    """The folder for the settings."""
    return user_config_path("holdfast", appauthor=False)


def log_folder() -> Path:
    """The folder for logs."""
    return user_log_path("holdfast", appauthor=False)


def own_folders() -> list[Path]:
    """The folders with a person's settings, data, logs and caches."""
    more = (path("holdfast", appauthor=False) for path in (user_cache_path, user_state_path))
    return [config_folder(), data_folder(), log_folder(), *more]
