"""`HermesProvider`: a plugin of hermes-agent's contract, as a provider of ours.

Such a plugin is made for one session at a time, writes on threads of its own and knows no keys. Here it is
told of each session before a turn of that session comes, its writing thread is waited for, an error it
swallows there counts, and what it has had already is not handed to it again.
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
from holdfast.core.errors import MemoryClosed, ProviderNotWorking
from holdfast.memory.config import ProviderConfig
from holdfast.memory.contract import CompletedTurn
from holdfast.memory.delivery import takes
from holdfast.memory.providers.batches import BatchProvider
from holdfast.memory.providers.delivered import DeliveredKeys
from holdfast.memory.providers.hermes.overhearing import Overhearing
from holdfast.memory.providers.hermes.world import PluginWorld

PREFIX = "hermes-"
# A plugin's writer is waited for this long; one that outlives it is taken to be there for good.
WRITE_SECONDS = 15.0
RECALL_SECONDS = 20.0
# So often an error that a plugin only logs counts as a failure of one turn; each time it may have stored it.
MOST_SWALLOWED = 4

logger = logging.getLogger(__name__)


class HermesProvider(BatchProvider):
    """One plugin, loaded from its folder. Its name is the plugin's own, after `hermes-`."""

    def __init__(self, plugin: Path, *, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self._clock = SystemClock()
        self._variables = environment or {}
        self._folder = plugin.expanduser().resolve()
        named = self._variables.get("HERMES_HOME")
        self._home = Path(named).expanduser() if named else folder / "hermes"
        self._world = PluginWorld(self._folder, self._home, self._variables)
        self._overheard = Overhearing(self._world.package)
        self._plugin = self._world.make()
        self._keys_file = folder / "hermes" / f"{self._plugin.name}.sent.db"
        self._lock = threading.Lock()  # guards _closed, _keys and _session
        self._keys: DeliveredKeys | None = None
        self._closed = False
        self._session = ""
        self._asked = ""
        self._turns = 0
        self._swallowed: dict[str, int] = {}
        self._there_for_good: weakref.WeakSet[threading.Thread] = weakref.WeakSet()

    @property
    def name(self) -> str:
        return f"{PREFIX}{self._plugin.name}"

    @property
    def closed(self) -> bool:
        return self._closed

    def is_available(self) -> bool:
        # A plugin looks at its configuration to answer, and gets it with `initialize`.
        return True

    def get_config_schema(self) -> list[dict[str, Any]]:
        schema: list[dict[str, Any]] = getattr(self._plugin, "get_config_schema", list)()
        # A plugin says itself what it misses; it has more ways to be configured than its schema.
        return [{**entry, "required": False} for entry in schema]

    def check(self, config: ProviderConfig) -> str:
        """Ask the plugin itself, in its own home and in an empty one: a check leaves nothing in either."""
        with tempfile.TemporaryDirectory() as scratch:
            for home, save in ((self._home, False), (Path(scratch), True)):
                world = PluginWorld(self._folder, home, self._variables)
                try:
                    if world.configured(config, save=save).is_available():
                        return f"the plugin says that it is configured; its home is {self._home}"
                finally:
                    world.close()
        raise ProviderNotWorking(self.name, "the plugin says that it is not configured")

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        self._home.mkdir(parents=True, exist_ok=True)
        plugin = self._world.configured(kwargs.get("config") or ProviderConfig(), save=True)
        if not plugin.is_available():
            raise ProviderNotWorking(self.name, "it is not configured; `holdfast memory setup` asks for it")
        self._session = session_id or "holdfast"
        self._overheard.clear()
        plugin.initialize(
            self._session,
            hermes_home=str(self._home),
            platform="cli",
            agent_context="primary",
            agent_identity="default",
            agent_workspace="holdfast",
        )
        self._plugin = plugin
        # One that connects in the background drops turns until it has.
        self._raise_swallowed("", self._wait_for("_init_thread", WRITE_SECONDS))

    def sync_turns(self, turns: Sequence[CompletedTurn]) -> None:
        """Hand each turn over that the plugin has not had, one at a time."""
        keys = self._open_keys()
        for turn in turns:
            if keys.begin(turn.key) != "sent":
                self._enter(turn.session_id)
                self._sync(turn)
                keys.settle(turn.key)

    def _sync(self, turn: CompletedTurn) -> None:
        said: dict[str, Any] = {"session_id": turn.session_id}
        if takes(self._plugin.sync_turn, "messages"):
            said["messages"] = list(turn.messages)
        self._overheard.clear()
        self._plugin.sync_turn(turn.user_content, turn.assistant_content, **said)
        self._raise_swallowed(turn.key, self._wait_for("_sync_thread", WRITE_SECONDS))

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        """Recall for this very question: what a plugin keeps for the next one is made and taken at once."""
        if self._closed:
            return ""
        if query != self._asked:
            self._asked, self._turns = query, self._turns + 1
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
            keys, self._keys = self._keys, None
        try:
            self._plugin.shutdown()
        finally:
            if keys is not None:
                keys.close()
            self._overheard.close()
            self._world.close()

    def _enter(self, session_id: str) -> None:
        """Tell the plugin whose turn comes next: it writes to the session it was last told of."""
        if session_id and session_id != self._session:
            self.on_session_switch(session_id, parent_session_id=self._session)

    def _wait_for(self, attribute: str, seconds: float) -> int | None:
        """Wait for the thread that a plugin has just started, as such plugins call it; says which it was."""
        thread = getattr(self._plugin, attribute, None)
        if not isinstance(thread, threading.Thread):
            return None
        if thread.is_alive() and thread not in self._there_for_good:
            thread.join(seconds)
            if thread.is_alive():
                self._there_for_good.add(thread)
        return thread.ident

    def _raise_swallowed(self, what: str, thread: int | None) -> None:
        """Raise what the plugin swallowed, unless it does so every time: then it means no failure by it."""
        swallowed = self._overheard.error_on(threading.get_ident(), thread)
        if swallowed is None:
            self._swallowed.pop(what, None)
            return
        self._swallowed[what] = times = self._swallowed.get(what, 0) + 1
        if times < MOST_SWALLOWED:
            raise ProviderNotWorking(self.name, f"{type(swallowed).__name__}: {swallowed}") from swallowed
        del self._swallowed[what]
        logger.warning("memory.hermes_error_ignored", extra={"provider": self.name, "error": repr(swallowed)})

    def _open_keys(self) -> DeliveredKeys:
        with self._lock:
            if self._closed:
                raise MemoryClosed(self.name)
            if self._keys is None:
                self._keys = DeliveredKeys(self._keys_file)
            return self._keys
