"""Stores the configuration of providers: secrets in one file, the other values in another.

Both are TOML files with a section for each provider. Only its owner can read the file with the secrets.
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.core.errors import InvalidInput
from holdfast.core.whole_files import replace_files
from holdfast.memory.config import ConfigField, as_text

HEAD = "# {what}, written by `holdfast memory setup NAME` and `holdfast gateway setup PLATFORM`.\n"


class ConfigStore:
    """Reads and writes the configuration values of providers."""

    def __init__(self, settings: Path, secrets: Path) -> None:
        self.settings = settings
        self.secrets = secrets

    def read(self, provider: str) -> dict[str, str]:
        """The stored values of a provider; raises `InvalidInput` with the name of an unreadable file."""
        found: dict[str, str] = {}
        for file in (self.settings, self.secrets):
            section = _read(file).get(provider, {})
            if not isinstance(section, dict):
                raise InvalidInput(f"{file}: {provider} must be a section")
            found |= {key: as_text(value) for key, value in section.items()}
        return found

    def write(
        self, provider: str, fields: Sequence[ConfigField], values: Mapping[str, str]
    ) -> list[tuple[Path, list[str]]]:
        """Store the values of one provider; returns each file that was written, with its keys."""
        hidden = {each.key for each in fields if each.secret}
        parts = (
            (self.settings, "Settings", {key: value for key, value in values.items() if key not in hidden}),
            (self.secrets, "Secrets", {key: value for key, value in values.items() if key in hidden}),
        )
        written = []
        for file, what, part in parts:
            before = _read(file)
            if part or provider in before:
                _replace(file, what, {**before, provider: part})
            if part:
                written.append((file, sorted(part)))
        return written


def _read(file: Path) -> dict[str, object]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as cause:
        raise InvalidInput(
            f"{file} can't be read: {cause}. Mend or remove it; nothing was changed"
        ) from cause


def _replace(file: Path, what: str, sections: Mapping[str, object]) -> None:
    lines = [HEAD.format(what=what)]
    for name, section in sections.items():
        if isinstance(section, Mapping):
            entries = [f"{_text(key)} = {_text(as_text(value))}" for key, value in section.items()]
            lines += [f"[{_text(name)}]", *entries, ""]
    try:
        replace_files({file: "\n".join(lines)})
    except OSError as cause:
        raise InvalidInput(f"{file} can't be written: {cause}") from cause


def _text(value: str) -> str:
    # A JSON string of printable characters is a TOML string.
    return json.dumps(value, ensure_ascii=False)
