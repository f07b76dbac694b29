"""The modules of hermes-agent that memory plugins import, written from the way plugins use them.

Each loaded plugin has its own copies, which are never in `sys.modules`: names like `tools` and `utils` belong
to other code. Importing any other module of hermes-agent fails, which plugins treat as "not installed".
"""

import asyncio
import json
import logging
import os
import re
import sqlite3
import threading
from collections.abc import Callable, Coroutine, Mapping, MutableMapping
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from holdfast.core.whole_files import replace_files
from holdfast.memory.config import YES
from holdfast.memory.contract import MemoryProvider

logger = logging.getLogger(__name__)

T = TypeVar("T")

RECALLED = re.compile(r"<\s*memory-context\s*>.*?</\s*memory-context\s*>", re.IGNORECASE | re.DOTALL)
FENCE = re.compile(r"</?\s*memory-context\s*>", re.IGNORECASE)


class PluginBase(MemoryProvider):
    """The class that plugins import as `agent.memory_provider.MemoryProvider`."""

    def save_config(self, values: dict[str, Any], hermes_home: str) -> None:
        """Write the values that are not secret into the plugin's own files."""

    def backup_paths(self) -> list[str]:
        return []


class FeatureUnavailable(RuntimeError):
    """hermes-agent raises it when a package can't be installed; Holdfast never installs one."""


class SingletonSlot(Generic[T]):
    """Creates an object once for all callers; a failure is not kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _made
        self._made: list[T] = []

    def get(self, factory: Callable[[], T]) -> T:
        with self._lock:
            if not self._made:
                self._made.append(factory())
            return self._made[0]

    def peek(self) -> T | None:
        return self._made[0] if self._made else None

    def reset(self) -> None:
        with self._lock:
            self._made.clear()


def plugin_modules(home: Path, environment: MutableMapping[str, str]) -> dict[str, ModuleType]:
    """All API modules by their full names, for one home folder and one environment."""
    offered: dict[str, dict[str, object]] = {
        "agent": {},
        "agent.memory_provider": {"MemoryProvider": PluginBase},
        "agent.memory_manager": {"sanitize_context": sanitize_context},
        "agent.async_utils": {"safe_schedule_threadsafe": schedule},
        "agent.message_content": {"flatten_message_text": flatten},
        "agent.skill_commands": {"extract_user_instruction_from_skill_message": as_text},
        "agent.file_safety": {"raise_if_read_blocked": lambda _path: None},
        "tools": {},
        "tools.registry": {"tool_error": tool_error, "tool_result": tool_result},
        "tools.lazy_deps": {"ensure": lambda *_, **__: None, "FeatureUnavailable": FeatureUnavailable},
        "utils": {
            "atomic_json_write": atomic_json_write,
            "env_var_enabled": lambda name, default="": environment.get(name, default).lower() in YES,
        },
        "hermes_state": {"apply_wal_with_fallback": apply_wal},
        "hermes_constants": {"get_hermes_home": lambda: home, "display_hermes_home": lambda: str(home)},
        "hermes_cli": {},
        "hermes_cli.config": {
            "cfg_get": cfg_get,
            "load_config": lambda: load_config(home),
            "load_config_readonly": lambda: load_config(home),
            "save_config": lambda config: save_config(home, config),
        },
        "hermes_cli.profiles": {
            "_get_default_hermes_home": lambda: home,
            "get_active_profile_name": lambda: "default",
            "list_profiles": list,
        },
        "plugins": {},
        "plugins.plugin_utils": {"SingletonSlot": SingletonSlot},
        "plugins.memory": {},
        "plugins.memory.query_rewrite": {"rewrite_memory_query": lambda _message: ""},
    }
    modules = {name: ModuleType(name) for name in offered}
    for name, members in offered.items():
        vars(modules[name]).update(members)
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(modules[parent], last, modules[name])
    return modules


class PluginOs(ModuleType):
    """The module `os` for one plugin, with an environment of its own."""

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        super().__init__("os")
        self.environ = environment
        self.getenv = environment.get

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever os has
        return getattr(os, name)


def apply_wal(conn: sqlite3.Connection, *, db_label: str = "") -> str:
    """Switch a database to WAL where the file system can; returns the resulting mode."""
    try:
        return str(conn.execute("pragma journal_mode = wal").fetchone()[0])
    except sqlite3.OperationalError as cause:
        logger.warning("memory.hermes_no_wal", extra={"database": db_label, "cause": str(cause)})
        return str(conn.execute("pragma journal_mode = delete").fetchone()[0])


def sanitize_context(text: str) -> str:
    """The text without recalled memories."""
    return FENCE.sub("", RECALLED.sub("", text))


def schedule(
    coro: Coroutine[Any, Any, Any],
    loop: asyncio.AbstractEventLoop | None,
    *,
    logger: logging.Logger | None = None,
    log_message: str = "not scheduled",
    log_level: int = logging.DEBUG,
) -> "Future[Any] | None":
    """Run a coroutine on the loop of another thread; closes it and returns None when there is none."""
    cause: RuntimeError | str = "there is no loop"
    if loop is not None:
        try:
            return asyncio.run_coroutine_threadsafe(coro, loop)
        except RuntimeError as closed:
            cause = closed
    coro.close()
    (logger or logging.getLogger(__name__)).log(log_level, "%s: %s", log_message, cause)
    return None


def flatten(content: object, *, sep: str = "\n") -> str:
    """The text of a message's content."""
    if isinstance(content, list):
        parts = [each if isinstance(each, str) else str(each.get("text") or "") for each in content]
        return sep.join(part for part in parts if part)
    if content is None:
        return ""
    return content if isinstance(content, str) else str(content)


def as_text(content: object) -> str | None:
    """The instruction of the user, unchanged: Holdfast puts no skill into a message."""
    return content if isinstance(content, str) else None


def tool_error(message: object, **extra: object) -> str:
    return json.dumps({"error": str(message), **extra}, ensure_ascii=False, default=str)


def tool_result(data: object = None, **facts: object) -> str:
    return json.dumps(facts if data is None else data, ensure_ascii=False, default=str)


def atomic_json_write(
    path: str | Path,
    data: object,
    *,
    indent: int = 2,
    mode: int | None = None,
    **options: Any,  # noqa: ANN401
) -> None:
    """Write JSON atomically: a reader sees the old or the new file."""
    replace_files({Path(path): json.dumps(data, indent=indent, **{"ensure_ascii": False, **options})}, mode)


def cfg_get(config: Mapping[str, Any] | None, *keys: str, default: object = None) -> object:
    """A nested configuration value; the default when a key is missing."""
    found: object = config
    for key in keys:
        if not isinstance(found, Mapping) or key not in found:
            return default
        found = found[key]
    return found


def load_config(home: Path) -> dict[str, Any]:
    """`config.yaml` in the home folder; empty when there is none, or it can't be read."""
    import yaml

    try:
        read = yaml.safe_load((home / "config.yaml").read_text(encoding="utf-8-sig"))
    except (OSError, yaml.YAMLError):
        return {}
    return read if isinstance(read, dict) else {}


def save_config(home: Path, config: Mapping[str, Any]) -> None:
    import yaml

    home.mkdir(parents=True, exist_ok=True)
    (home / "config.yaml").write_text(yaml.safe_dump(dict(config)), encoding="utf-8")
