"""A memory plugin in the style of hermes-agent's: a thread for each write, late imports."""

from __future__ import annotations

import json
import logging
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.memory_provider import MemoryProvider  # type: ignore[import-not-found]
from tools.registry import tool_error  # type: ignore[import-not-found, import-untyped, unused-ignore]

from .pages import Pages  # noqa: TID252 - as such plugins do

logger = logging.getLogger(__name__)


@dataclass
class State:
    session: str = ""
    heard: list[tuple[str, Any]] = field(default_factory=list)


class Jotter(MemoryProvider):  # type: ignore[misc]
    def __init__(self) -> None:
        self.state = State()
        self._sync_thread: threading.Thread | None = None
        self._prefetch_thread: threading.Thread | None = None
        self._result = ""
        self._pages: Pages | None = None

    @property
    def name(self) -> str:
        return "jotter"

    def is_available(self) -> bool:
        return bool(os.environ.get("JOTTER_KEY"))

    def get_config_schema(self) -> list[dict[str, Any]]:
        from hermes_constants import display_hermes_home  # type: ignore[import-not-found]

        return [
            {"key": "api_key", "secret": True, "required": True, "env_var": "JOTTER_KEY"},
            {"key": "file", "description": f"In {display_hermes_home()}", "default": "jotter.jsonl"},
        ]

    def save_config(self, values: dict[str, Any], hermes_home: str) -> None:
        from utils import atomic_json_write  # type: ignore[import-not-found]

        atomic_json_write(Path(hermes_home) / "jotter.json", values, mode=0o600)

    def initialize(self, session_id: str, **kwargs: object) -> None:
        from hermes_cli.config import cfg_get, load_config  # type: ignore[import-not-found]
        from plugins.memory.jotter.pages import Pages as SamePages  # type: ignore[import-not-found]

        assert SamePages is Pages
        config = Path(str(kwargs["hermes_home"])) / "jotter.json"
        file = json.loads(config.read_text())["file"] if config.exists() else "jotter.jsonl"
        self._pages = Pages(
            Path(str(kwargs["hermes_home"])) / file, cfg_get(load_config(), "jotter", "stamp")
        )
        self.state.session = session_id

    def sync_turn(self, user_content: str, assistant_content: str, *, session_id: str = "") -> None:
        session = self.state.session

        def write() -> None:
            try:
                assert self._pages is not None
                self._pages.add(session, user_content)
            except OSError as error:
                logger.debug("jotter failed: %s", error)

        self._sync_thread = threading.Thread(target=write, daemon=True, name="jotter-sync")
        self._sync_thread.start()

    def queue_prefetch(self, query: str, *, session_id: str = "") -> None:
        def recall() -> None:
            try:
                assert self._pages is not None
                self._result = "\n".join(self._pages.like(query))
            except OSError as error:
                logger.debug("jotter recall failed: %s", error)

        self._prefetch_thread = threading.Thread(target=recall, daemon=True, name="jotter-prefetch")
        self._prefetch_thread.start()

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        result, self._result = self._result, ""
        return result

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        return [
            {"name": "jot", "description": "Jot down", "parameters": {"type": "object", "properties": {}}}
        ]

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: object) -> str:
        if "text" not in args:
            return str(tool_error("text is missing"))
        assert self._pages is not None
        self._pages.add(self.state.session, args["text"])
        return json.dumps({"key": os.environ["JOTTER_KEY"], "session": self.state.session})

    def on_session_switch(self, new_session_id: str, **kwargs: object) -> None:
        self.state.session = new_session_id

    def on_session_end(self, messages: list[dict[str, Any]]) -> None:
        self.state.heard.append(("end", len(messages)))

    def shutdown(self) -> None:
        for thread in (self._sync_thread, self._prefetch_thread):
            if thread is not None:
                thread.join(timeout=5)


def register(ctx: Any) -> None:  # noqa: ANN401 - whatever hosts it
    ctx.register_hook("on_session_end", lambda: None)
    ctx.register_memory_provider(Jotter())
