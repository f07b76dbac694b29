"""`HermesProvider`: runs a plugin for hermes-agent as a memory provider of Holdfast.

Such a plugin works for one session at a time, writes on threads of its own and has no idempotency keys. This
class switches the plugin to the session of each turn, waits for its writing thread, treats an error that it
only logs as a failure, and does not deliver a turn twice.
"""

import logging
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.core.clock import SystemClock
from holdfast.core.contract import Message
from holdfast.core.errors import ProviderNotWorking
from holdfast.memory.config import ProviderConfig
from holdfast.memory.contract import CompletedTurn
from holdfast.memory.delivery import accepts_argument
from holdfast.providers.batch_provider import BatchProvider
from holdfast.providers.delivered_keys import DeliveredKeys
from holdfast.providers.hermes.plugin_loader import PluginLoader
from holdfast.providers.hermes.swallowed_errors import SwallowedErrors

PREFIX = "hermes-"
# The wait for the writing thread of a plugin. A thread that lives longer is taken to be permanent.
WRITE_SECONDS = 15.0
RECALL_SECONDS = 20.0
# Until the plugin has written one turn without a logged error, a logged error fails a turn at most this
# often: the plugin may have stored the turn each time.
MAX_SWALLOWED = 4

logger = logging.getLogger(__name__)


class HermesProvider(BatchProvider):
    """One plugin from its folder. Its name is `hermes-` and the name of the plugin."""

    def __init__(self, plugin: Path, *, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self._clock = SystemClock()
        self._variables = environment or {}
        self._folder = plugin.expanduser().resolve()
        named = self._variables.get("HERMES_HOME")
        self._home = Path(named).expanduser() if named else folder / "hermes"
        self._loader = PluginLoader(self._folder, self._home, self._variables)
        self._swallowed_errors = SwallowedErrors(self._loader.package)
        self._plugin = self._loader.make()
        self._keys = DeliveredKeys(folder / "hermes" / f"{self._plugin.name}.sent.db")
        self._lock = threading.Lock()  # guards _closed
        self._session = ""
        self._last_query = ""
        self._turns = 0
        self._swallowed_counts: dict[str, int] = {}
        # Whether the plugin has written a turn without a logged error; from then on each error is a failure.
        self._has_written = False
        self._long_lived_threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()

    @property
    def name(self) -> str:
        return f"{PREFIX}{self._plugin.name}"

    def get_config_schema(self) -> list[dict[str, Any]]:
        schema: list[dict[str, Any]] = getattr(self._plugin, "get_config_schema", list)()
        # The plugin itself reports missing values: it can be configured in more ways than its schema has.
        return [{**entry, "required": False} for entry in schema]

    def check(self, config: ProviderConfig) -> str:
        """Ask the plugin whether it is configured, in its home and in an empty one; changes neither."""
        with tempfile.TemporaryDirectory() as scratch:
            for home, save in ((self._home, False), (Path(scratch), True)):
                loader = PluginLoader(self._folder, home, self._variables)
                try:
                    if loader.configured(config, save=save).is_available():
                        return f"the plugin says that it is configured; its home is {self._home}"
                finally:
                    loader.close()
        raise ProviderNotWorking(self.name, "the plugin says that it is not configured")

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        # `is_available` does not ask the plugin, which can't answer without its configuration.
        self._home.mkdir(parents=True, exist_ok=True)
        plugin = self._loader.configured(kwargs.get("config") or ProviderConfig(), save=True)
        if not plugin.is_available():
            raise ProviderNotWorking(self.name, "it is not configured; `holdfast memory setup` asks for it")
        self._session = session_id or "holdfast"
        self._swallowed_errors.clear()
        plugin.initialize(
            self._session,
            hermes_home=str(self._home),
            platform="cli",
            agent_context="primary",
            agent_identity="default",
            agent_workspace="holdfast",
        )
        self._plugin = plugin
        # A plugin that connects in the background drops turns until it is connected.
        self._raise_swallowed("", self._wait_for("_init_thread", WRITE_SECONDS))

    def sync_turns(self, turns: Sequence[CompletedTurn]) -> None:
        """Deliver each turn that the plugin has not received, one at a time."""
        for turn in turns:
            if self._keys.begin(turn.key) != "sent":
                self._switch_session(turn.session_id)
                self._sync(turn)
                self._keys.settle(turn.key)

    def _sync(self, turn: CompletedTurn) -> None:
        arguments: dict[str, Any] = {"session_id": turn.session_id}
        if accepts_argument(self._plugin.sync_turn, "messages"):
            arguments["messages"] = list(turn.messages)
        self._swallowed_errors.clear()
        self._plugin.sync_turn(turn.user_content, turn.assistant_content, **arguments)
        self._raise_swallowed(turn.key, self._wait_for("_sync_thread", WRITE_SECONDS))

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        """Recall for this query: start the plugin's prefetch, wait for it and take its result."""
        if self._closed:
            return ""
        if query != self._last_query:
            self._last_query, self._turns = query, self._turns + 1
            self._plugin.on_turn_start(self._turns, query)
        self._plugin.queue_prefetch(query, session_id=session_id)
        self._wait_for("_prefetch_thread", RECALL_SECONDS)
        return self._plugin.prefetch(query, session_id=session_id) or ""

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        return [
            schema if "function" in schema else {"type": "function", "function": schema}
            for schema in self._plugin.get_tool_schemas()
        ]

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:
        return self._plugin.handle_tool_call(tool_name, args, **kwargs)

    def system_prompt_block(self) -> str:
        return self._plugin.system_prompt_block()

    def on_session_end(self, messages: list[Message]) -> None:
        self._plugin.on_session_end(messages)
        self._wait_for("_sync_thread", WRITE_SECONDS)

    def on_session_switch(
        self,
        new_session_id: str,
        *,
        parent_session_id: str = "",
        reset: bool = False,
        rewound: bool = False,
        **kwargs: Any,
    ) -> None:
        self._session = new_session_id
        self._plugin.on_session_switch(
            new_session_id, parent_session_id=parent_session_id, reset=reset, rewound=rewound, **kwargs
        )

    def on_pre_compress(self, messages: list[Message]) -> str:
        return self._plugin.on_pre_compress(messages) or ""

    def on_memory_write(self, action: str, target: str, content: str, metadata: Any = None) -> None:
        self._plugin.on_memory_write(action, target, content, metadata)

    def on_delegation(self, task: str, result: str, *, child_session_id: str = "", **kwargs: Any) -> None:
        self._plugin.on_delegation(task, result, child_session_id=child_session_id, **kwargs)

    def shutdown(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        try:
            self._plugin.shutdown()
        finally:
            # A turn that was being written may still be marked as sent while the plugin drains.
            self._keys.close()
            self._swallowed_errors.close()
            self._loader.close()

    def _switch_session(self, session_id: str) -> None:
        """Switch the plugin to the session of the next turn: it writes to its current session."""
        if session_id and session_id != self._session:
            self.on_session_switch(session_id, parent_session_id=self._session)

    def _wait_for(self, attribute: str, seconds: float) -> int | None:
        """Wait for the thread in this attribute of the plugin; returns the thread's id."""
        thread = getattr(self._plugin, attribute, None)
        if not isinstance(thread, threading.Thread):
            return None
        if thread.is_alive() and thread not in self._long_lived_threads:
            thread.join(seconds)
            if thread.is_alive():
                self._long_lived_threads.add(thread)
        return thread.ident

    def _raise_swallowed(self, what: str, thread: int | None) -> None:
        """Raise the error that the plugin logged, unless it logs one at every turn from the first on."""
        swallowed = self._swallowed_errors.error_on(threading.get_ident(), thread)
        if swallowed is None:
            self._swallowed_counts.pop(what, None)
            self._has_written = self._has_written or bool(what)
            return
        if not self._has_written:
            times = self._swallowed_counts.pop(what, 0) + 1
            if times == MAX_SWALLOWED:
                ignored = {"provider": self.name, "error": repr(swallowed)}
                logger.warning("memory.hermes_error_ignored", extra=ignored)
                return
            self._swallowed_counts[what] = times
        raise ProviderNotWorking(self.name, f"{type(swallowed).__name__}: {swallowed}") from swallowed
