"""Reads the settings from the settings file and the environment.

A setting `section.key` is the variable `HOLDFAST_SECTION_KEY`: `HOLDFAST_STORE_URL`,
`HOLDFAST_EXIT_WATCHDOG_S`. `core/settings.py` declares the settings, and `core/settings_file.py` parses the
file.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from holdfast.core.errors import SettingsInvalid
from holdfast.core.secret import Secret
from holdfast.core.settings import Settings
from holdfast.core.settings_file import Tree, expected, parse_settings
from holdfast.wiring.file_rights import others_can_write
from holdfast.wiring.folders import config_folder

PREFIX = "HOLDFAST_"
# Variables for the project's own tests, not settings of the program.
NOT_SETTINGS = "HOLDFAST_TEST_"
SETTINGS_FILE = "HOLDFAST_SETTINGS"


def load_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings file; variables of the environment override it. Raises `SettingsInvalid`.

    HOLDFAST_SETTINGS names the file. Without it, the user's own file is read if there is one, but not when
    `environment` is given: then only that counts.
    """
    variables = os.environ if environment is None else environment
    tree = _read_file(variables.get(SETTINGS_FILE, ""), user_file=environment is None)
    places = {
        f"{PREFIX}{section}_{key}".upper(): (section, key) for section, part in Settings() for key, _ in part
    }
    given = {
        name: value
        for name, value in variables.items()
        if name.startswith(PREFIX) and not name.startswith(NOT_SETTINGS) and name != SETTINGS_FILE
    }
    unknown = sorted(given.keys() - places.keys())
    if unknown:
        raise SettingsInvalid([(name, "there is no such setting") for name in unknown])
    for name, value in given.items():
        section, key = places[name]
        # An empty text or list may be meant; an empty number means that nothing is set.
        if value or isinstance(getattr(getattr(Settings(), section), key), (str, tuple, Secret)):
            tree.setdefault(section, {})[key] = value
    try:
        return Settings.model_validate(tree)
    except ValidationError as cause:
        # The file was checked before, so the problem is in a variable.
        raise SettingsInvalid(
            [
                (PREFIX + "_".join(str(part) for part in found["loc"]).upper(), expected(found))
                for found in cause.errors(include_input=False)
            ]
        ) from None


def _read_file(named: str, *, user_file: bool) -> Tree:
    path = Path(named) if named else config_folder() / "settings.toml"
    if not named and not user_file:
        return {}
    if unsafe := others_can_write(path):
        raise SettingsInvalid([(str(path), f"{unsafe}. It is not read: it says what the agent may do")])
    try:
        return with_keys(parse_settings(str(path), path.read_bytes()), path)
    except FileNotFoundError:
        if not named:
            return with_keys({}, path)
        raise SettingsInvalid([(str(path), f"there is no such file; {SETTINGS_FILE} names it")]) from None
    except OSError as cause:
        raise SettingsInvalid([(str(path), f"can't be read: {cause.strerror}")]) from cause


def keys_path(settings_file: Path) -> Path:
    """The file beside the settings file in which keys are kept apart; only its owner can read it."""
    return settings_file.with_name(f"{settings_file.stem}.keys.toml")


def with_keys(tree: Tree, settings_file: Path) -> Tree:
    """The settings with the keys that are kept apart from them."""
    path = keys_path(settings_file)
    if not path.is_file():
        return tree
    if unsafe := others_can_write(path):
        raise SettingsInvalid([(str(path), f"{unsafe}. It is not read: it holds keys")])
    for section, entries in parse_settings(str(path), path.read_bytes()).items():
        tree.setdefault(section, {}).update(entries)
    return tree


def settings_path() -> Path:
    """The path of the settings file: HOLDFAST_SETTINGS, or else the user's own file."""
    named = os.environ.get(SETTINGS_FILE, "")
    return Path(named) if named else config_folder() / "settings.toml"


def environment() -> Mapping[str, str]:
    """The environment variables of this process."""
    return os.environ


def editor() -> str:
    """The person's editor, as a command line (VISUAL or EDITOR); empty when none is set."""
    return os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
