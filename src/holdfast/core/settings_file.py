"""Reads `settings.toml`: sections and keys are those of `settings.py`.

Errors name the file, the line and the key. `tomllib` gives no line numbers for keys, so a small scan finds
them. `wiring/settings_loader.py` opens the file.
"""

import difflib
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from holdfast.core.errors import SettingsInvalid
from holdfast.core.settings import Settings

Tree = dict[str, dict[str, Any]]

HEADER = re.compile(r"\s*\[+\s*(?P<name>[^\[\]]+?)\s*\]")
ENTRY = re.compile(r"\s*(?P<name>[^=#]+?)\s*=")
QUOTES = re.compile(r"[\"'\s]")


def parse_settings(name: str, content: bytes) -> Tree:
    """Parse and check the content of the file `name`; raises `SettingsInvalid` with all problems."""
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
        tree = tomllib.loads(text)
    except UnicodeDecodeError as cause:
        raise SettingsInvalid([(name, f"is not text in UTF-8 (byte {cause.start})")]) from None
    except tomllib.TOMLDecodeError as cause:
        raise SettingsInvalid([(name, f"is not valid TOML: {cause}")]) from None
    try:
        settings: Tree = _with_tuples(tree)
        Settings.model_validate(settings, strict=True)
    except ValidationError as cause:
        problems = [_problem(name, text, found) for found in cause.errors(include_input=False)]
        raise SettingsInvalid(problems) from None
    return settings


def expected(found: ErrorDetails) -> str:
    """The problem with a value, for a person to read."""
    if found["type"] == "extra_forbidden":
        return "there is no such setting" + _meant(found["loc"])
    if found["type"] == "model_type":
        return f"must be a section: [{found['loc'][0]}]"
    return found["msg"].removeprefix("Value error, ")


def line_of(text: str, path: Sequence[str]) -> int | None:
    """The line number of a key or section, from 1; None when the scan doesn't find it."""
    section: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), start=1):
        if header := HEADER.match(line):
            section = _names(header["name"])
            found = section
        elif entry := ENTRY.match(line):
            found = section + _names(entry["name"])
        else:
            continue
        if found[: len(path)] == tuple(path):
            return number
    return None


def _with_tuples(value: Any) -> Any:  # noqa: ANN401 - whatever TOML holds
    """The same value with tuples instead of lists, because the strict check accepts only tuples."""
    if isinstance(value, dict):
        return {name: _with_tuples(inner) for name, inner in value.items()}
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value


def _names(dotted: str) -> tuple[str, ...]:
    return tuple(QUOTES.sub("", part) for part in dotted.split("."))


def _problem(name: str, text: str, found: ErrorDetails) -> tuple[str, str]:
    path = [str(part) for part in found["loc"]]
    line = line_of(text, path) or line_of(text, path[:2]) or line_of(text, path[:1])
    where = f"{name}, line {line}" if line else name
    return f"{where}, {'.'.join(path)}", expected(found)


def _meant(path: Sequence[int | str]) -> str:
    parts: Mapping[str, Any] = dict(Settings())
    known: Sequence[str] = list(parts)
    if len(path) > 1:
        known = list(type(parts[str(path[0])]).model_fields)
    close = difflib.get_close_matches(str(path[-1]), known, n=1)
    return f"; is {close[0]!r} meant?" if close else ""
