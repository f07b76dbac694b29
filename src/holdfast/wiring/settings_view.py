"""The settings as a person sees them: value, meaning, and where each comes from. A key is never shown."""

from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from holdfast.core.secret import Secret, without_password
from holdfast.core.settings_file import Tree, parse_settings
from holdfast.providers.loader import installed_providers
from holdfast.wiring.settings_loader import PREFIX, environment, load_settings, settings_path, with_keys

PROVIDERS = "memory.providers"
Source = Literal["default", "file", "environment"]
Kind = Literal["text", "number", "yes or no", "choice", "list", "key", "other"]


@dataclass(frozen=True, slots=True)
class SettingEntry:
    """One setting. `value` is empty for a key; `is_set` says whether there is one."""

    key: str
    value: str
    kind: Kind
    choices: tuple[str, ...]
    """What it can be; of a list, what is known here."""
    description: str
    source: Source
    variable: str
    is_set: bool
    items: tuple[str, ...]
    """Of a list, what is in it."""


def described_settings() -> tuple[Path, list[SettingEntry]]:
    """The settings file, and every setting as it would be read now. Raises `SettingsInvalid`."""
    file, settings = settings_path(), load_settings()
    tree: Tree = with_keys(parse_settings(str(file), file.read_bytes()) if file.is_file() else {}, file)
    entries = [
        _entry(f"{section}.{name}", getattr(part, name), type(part).model_fields[name], tree)
        for section, part in settings
        for name in type(part).model_fields
    ]
    return file, entries


def _entry(key: str, value: object, field: Any, tree: Tree) -> SettingEntry:  # noqa: ANN401 - pydantic's
    section, _, name = key.partition(".")
    variable = f"{PREFIX}{section}_{name}".upper()
    in_file = name in tree.get(section, {})
    source: Source = "environment" if variable in environment() else "file" if in_file else "default"
    kind, choices = _kind(value, field.annotation)
    if key == PROVIDERS:
        choices = tuple(installed_providers())
    items = value if kind == "list" and isinstance(value, tuple) else ()
    return SettingEntry(
        key, _shown(value), kind, choices, field.description or "", source, variable, bool(value), items
    )


def _kind(value: object, annotation: Any) -> tuple[Kind, tuple[str, ...]]:  # noqa: ANN401 - any type
    if isinstance(value, Secret):
        return "key", ()
    if isinstance(value, bool):
        return "yes or no", ("true", "false")
    if get_origin(annotation) is Literal:
        return "choice", tuple(map(str, get_args(annotation)))
    if isinstance(value, tuple):
        return ("list", ()) if all(isinstance(each, str) for each in value) else ("other", ())
    if isinstance(value, (int, float)) or (get_origin(annotation) in (Union, UnionType)):
        return "number", ()
    return "text", ()


def _shown(value: object) -> str:
    if value is None or isinstance(value, Secret):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        plain = all(isinstance(each, str) for each in value)
        return ", ".join(value) if plain else f"{len(value)} of them"
    return without_password(str(value))
