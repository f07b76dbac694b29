"""Adds MCP servers to the settings file and removes them; comments and the other settings stay."""

import json
import re
from collections.abc import Iterable

from holdfast.core.errors import InvalidInput
from holdfast.core.settings import McpServerSettings, Settings
from holdfast.core.settings_file import line_of, parse_settings
from holdfast.core.whole_files import replace_files
from holdfast.wiring.settings_loader import settings_path
from holdfast.wiring.settings_writer import EMPTY, change_settings, to_toml

KEY = ["tools", "mcp_servers"]
TABLE = "[[tools.mcp_servers]]"
HEADER = re.compile(r"\s*\[+\s*tools\s*\.\s*mcp_servers\s*(?P<inner>\.[^\]]*)?\]")
ANY_HEADER = re.compile(r"\s*\[")


def servers_in_file() -> tuple[McpServerSettings, ...]:
    """The servers that the settings file names."""
    file, text = settings_path(), _text()
    given = parse_settings(str(file), text.encode()).get("tools", {}).get("mcp_servers", ())
    return tuple(McpServerSettings.model_validate(each) for each in given)


def add_server(server: McpServerSettings) -> None:
    """Add a server, or put it in the place of the one that has its name."""
    if any(each.name == server.name for each in servers_in_file()):
        remove_server(server.name)
    text = _text()
    if _is_one_list(text):
        _write_list((*servers_in_file(), server))
        return
    entries = [f"{name} = {to_toml(value)}" for name, value in _given(server).items()]
    _replace("\n".join([text.rstrip("\n"), "", TABLE, *entries]) + "\n")


def remove_server(name: str) -> None:
    """Remove the server of that name."""
    known = servers_in_file()
    place = next((at for at, each in enumerate(known) if each.name == name), None)
    if place is None:
        listed = ", ".join(each.name for each in known) or "none"
        raise InvalidInput(f"the settings file has no MCP server {name!r}; it has {listed}")
    text = _text()
    if _is_one_list(text):
        _write_list(each for each in known if each.name != name)
        return
    kept, at, inside = [], -1, False
    for line in text.split("\n"):
        if found := HEADER.match(line):
            at += 0 if found["inner"] else 1
            inside = at == place
        elif ANY_HEADER.match(line):
            inside = False
        if not inside:
            kept.append(line)
    _replace("\n".join(kept).rstrip("\n") + "\n")


def _text() -> str:
    file = settings_path()
    try:
        return file.read_text(encoding="utf-8-sig") if file.exists() else EMPTY
    except (OSError, UnicodeDecodeError) as cause:
        raise InvalidInput(f"{file} can't be read: {cause}") from cause


def _is_one_list(text: str) -> bool:
    """Whether the servers are one list in the section `tools`, and no sections of their own."""
    at = line_of(text, KEY)
    return at is not None and not text.split("\n")[at - 1].lstrip().startswith("[")


def _given(server: McpServerSettings) -> dict[str, object]:
    return server.model_dump(mode="json", exclude_defaults=True)


def _write_list(servers: Iterable[McpServerSettings]) -> None:
    change_settings({".".join(KEY): json.dumps([_given(each) for each in servers])})


def _replace(text: str) -> None:
    file = settings_path()
    parse_settings(f"{file} (as it would be; nothing was changed)", text.encode())
    try:
        replace_files({file: text})
    except OSError as cause:
        raise InvalidInput(f"{file} can't be changed: {cause}") from cause


def server_named(settings: Settings, name: str) -> McpServerSettings:
    """The server of that name among those in effect."""
    for each in settings.tools.mcp_servers:
        if each.name == name:
            return each
    listed = ", ".join(each.name for each in settings.tools.mcp_servers) or "none"
    raise InvalidInput(f"there is no MCP server {name!r}; there is {listed}")
