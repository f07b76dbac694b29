"""Changes settings in the settings file; comments and the other settings stay."""

import fcntl
import json
import os
import re
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.core.clock import SystemClock
from holdfast.core.errors import InvalidInput
from holdfast.core.secret import MASK, Secret
from holdfast.core.setting_checks import split_list
from holdfast.core.settings import Settings
from holdfast.core.settings_file import line_of, parse_settings
from holdfast.core.whole_files import replace_files
from holdfast.wiring.settings_loader import keys_path, settings_path

EMPTY = "# Settings of Holdfast; docs/reference.md lists them.\n"
KEYS = "# Keys of Holdfast, kept apart from the settings. Only their owner may read this file.\n"
LOCK_SECONDS, LOCK_PAUSE = 2.0, 0.02
"""How long another process that changes the settings is waited for: a change takes milliseconds."""


def change_settings(changes: dict[str, str]) -> None:
    """Write settings to the file, all or none; an invalid one changes nothing. Keys go into another file."""
    file = settings_path()
    if masked := [key for key, value in changes.items() if MASK in value]:
        raise InvalidInput(
            f"{masked[0]} holds {MASK}, which stands for a password or a key that is not shown; nothing was "
            "changed. Write the whole value."
        )
    keys = {key: value for key, value in changes.items() if is_secret(key)}
    plain = {key: value for key, value in changes.items() if key not in keys}
    try:
        with _one_writer(file.parent):
            # A key that stands in the settings file would look like the one in use.
            dropped = {key for key in keys if line_of(_text(file), key.split("."))}
            texts = {keys_path(file): _new_text(keys_path(file), KEYS, keys, set())} if keys else {}
            if plain or dropped:
                texts[file] = _new_text(file, EMPTY, plain, dropped)
            replace_files(texts)
    except OSError as cause:
        raise InvalidInput(f"{file} can't be changed: {cause}") from cause


@contextmanager
def _one_writer(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, so that no other process changes the same files; `InvalidInput` if one does."""
    folder.mkdir(parents=True, exist_ok=True)
    held = os.open(folder, os.O_RDONLY)
    clock, never = SystemClock(), threading.Event()
    try:
        until = clock.monotonic() + LOCK_SECONDS
        while not _locked(held):
            if clock.monotonic() > until:
                raise InvalidInput(
                    f"another process is changing files in {folder}; nothing was changed. Try again."
                )
            clock.wait(never, LOCK_PAUSE)
        yield
    finally:
        os.close(held)


def _locked(folder: int) -> bool:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_secret(key: str) -> bool:
    """Whether a setting is a key or a token, which is never shown."""
    section, _, name = key.partition(".")
    return isinstance(getattr(getattr(Settings(), section, None), name, None), Secret)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig") if file.exists() else ""
    except (OSError, UnicodeDecodeError) as cause:
        raise InvalidInput(f"{file} can't be changed: {cause}") from cause


def _new_text(file: Path, empty: str, changes: dict[str, str], dropped: set[str]) -> str:
    """The file as it is to be, checked."""
    text = _text(file) or empty
    for key, value in changes.items():
        text = _changed(text, key, value)
    for key in dropped:
        text = _without(text, key)
    parse_settings(f"{file} (as it would be; nothing was changed)", text.encode())
    return text


def _without(text: str, key: str) -> str:
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    at = line_of(text, key.split("."))
    if at is not None:
        del lines[at - 1 : _entry_end(lines, at, key)]
    return "\n".join(lines) + "\n"


def _changed(text: str, key: str, value: str) -> str:
    section, dot, name = key.partition(".")
    parts = dict(Settings())
    if not dot or section not in parts or name not in type(parts[section]).model_fields:
        raise InvalidInput(f"there is no setting {key!r}; `holdfast config show` lists them")
    entry = f"{name} = {to_toml(_typed(getattr(parts[section], name), value))}"
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


def to_toml(value: object) -> str:

    if isinstance(value, dict):
        return "{" + ", ".join(f"{to_toml(key)} = {to_toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(to_toml, value)) + "]"
    # The strings, numbers and booleans of JSON are those of TOML.
    return json.dumps(value, ensure_ascii=False, default=str)
