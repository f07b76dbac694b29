"""`holdfast config`: shows and changes the settings."""

import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from contextlib import suppress
from pathlib import Path

from cyclopts import App

from holdfast.cli.output import show
from holdfast.core.errors import InvalidInput
from holdfast.core.secret import MASK, Secret
from holdfast.core.setting_checks import split_list
from holdfast.core.settings import Settings
from holdfast.core.settings_file import line_of, parse_settings
from holdfast.wiring import editor, load_settings, settings_path

config = App(name="config", help="Show and change the settings.")
PASSWORD = re.compile(r"(?<=://)[^/@\s]*@")
EMPTY = "# Settings of Holdfast; docs/reference.md lists them.\n"


@config.default
def show_settings() -> None:
    """Print every setting in effect, secrets masked."""
    for section, part in load_settings():
        for key, value in part:
            hidden = not type(part).model_fields[key].repr and not isinstance(value, str)
            shown = f"({len(value)}, not shown)" if hidden and value else _shown(value)
            show(f"{section}.{key} = {shown}")


config.command(show_settings, name="show")


def _shown(value: object) -> str:
    if isinstance(value, Secret):
        return MASK if value else '""'
    if isinstance(value, str):
        return _toml(PASSWORD.sub(f"{MASK}@", value))
    return "(none)" if value is None else _toml(value)


@config.command
def path() -> None:
    """Print where the settings file is, or would be."""
    show(str(settings_path()))


@config.command(name="set")
def set_setting(key: str, value: str, /) -> None:
    """Change one setting in the file. Comments and the other settings stay.

    Parameters
    ----------
    key
        SECTION.KEY, such as model.name.
    value
        The new value; a list as JSON, such as '["command:ls *"]', or with commas. '[]' empties it.

    """
    change_settings({key: value})
    show(f"{key} is set in {settings_path()}")


def change_settings(changes: dict[str, str]) -> None:
    """Write settings to the file, all or none; an invalid one changes nothing."""
    file = settings_path()
    try:
        text = file.read_text(encoding="utf-8-sig") if file.exists() else EMPTY
        for key, value in changes.items():
            text = _changed(text, key, value)
        parse_settings(f"{file} (as it would be; nothing was changed)", text.encode())
        _replace(file, text)
    except (OSError, UnicodeDecodeError) as cause:
        raise InvalidInput(f"{file} can't be changed: {cause}") from cause


def _replace(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    # The file may hold a key, so only its owner may read it. Renaming never leaves half a file.
    with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False, encoding="utf-8") as new:
        new.write(text)
    Path(new.name).replace(file)


def _changed(text: str, key: str, value: str) -> str:
    section, dot, name = key.partition(".")
    parts = dict(Settings())
    if not dot or section not in parts or name not in type(parts[section]).model_fields:
        raise InvalidInput(f"there is no setting {key!r}; `holdfast config show` lists them")
    entry = f"{name} = {_toml(_typed(getattr(parts[section], name), value))}"
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    at = line_of(text, [section, name])
    if at is not None:
        lines[at - 1 : _entry_end(lines, at, key)] = [entry]
        return "\n".join(lines) + "\n"
    header = line_of(text, [section])
    if header is None:
        return "\n".join([*lines, "", f"[{section}]", entry]) + "\n"
    lines.insert(header, entry)
    return "\n".join(lines) + "\n"


def _entry_end(lines: list[str], at: int, key: str) -> int:
    """The last line, from 1, of the entry that begins at a line: a list may go on over several."""
    if lines[at - 1].lstrip().startswith("["):
        raise InvalidInput(f"{key} has sections of its own; change them with `holdfast config edit`")
    for end in range(at, len(lines) + 1):
        with suppress(tomllib.TOMLDecodeError):
            tomllib.loads("\n".join(lines[at - 1 : end]))
            return end
    return at


def _typed(default: object, value: str) -> object:
    """The value in the type of the setting; reading the file refuses a value of the wrong type."""
    if isinstance(default, tuple):
        return split_list(value)
    if isinstance(default, (str, Secret)):
        return value
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    try:
        return int(value) if re.fullmatch(r"-?\d+", value) else float(value)
    except ValueError:
        return value


def _toml(value: object) -> str:
    import json

    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(key)} = {_toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    # The strings, numbers and booleans of JSON are those of TOML.
    return json.dumps(value, ensure_ascii=False, default=str)


@config.command
def edit() -> None:
    """Open the settings file in the editor that VISUAL or EDITOR names; it is checked before it counts."""
    command = editor()
    file = settings_path()
    if not command:
        raise InvalidInput(f"no editor is named; set EDITOR, or change {file} with `holdfast config set`")
    text = file.read_text(encoding="utf-8") if file.exists() else EMPTY
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / "settings.toml"
        draft.write_text(text, encoding="utf-8")
        done = subprocess.run([*shlex.split(command), str(draft)], stdin=sys.stdin, check=False)  # noqa: S603 - the person's own editor
        changed = draft.read_bytes()
    if done.returncode:
        raise InvalidInput(f"the editor ended with {done.returncode}; nothing was changed")
    parse_settings(f"{file} (as it would be; nothing was changed)", changed)
    _replace(file, changed.decode("utf-8-sig"))
    show(f"{file} is written")
