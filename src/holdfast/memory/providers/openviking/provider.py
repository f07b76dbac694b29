"""`OpenVikingMemory`: long-term memory on an OpenViking server. Read `delivery.py` for how turns get there.

The client and the ledger live on an event loop of their own thread, which is the provider's one writer: the
lanes wait there for answers, and `shutdown` closes both on that same thread.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from holdfast.core.contract import Clock, Message
from holdfast.core.errors import ProviderUnavailable
from holdfast.memory.config import ProviderConfig
from holdfast.memory.contract import CompletedTurn
from holdfast.memory.providers.batches import BatchProvider
from holdfast.memory.providers.client_loop import DRAIN_SECONDS, ClientLoop, asked_once, close_at_exit
from holdfast.memory.providers.openviking.api import NAME, OpenVikingApi
from holdfast.memory.providers.openviking.delivery import Writer
from holdfast.memory.providers.openviking.ledger import Counts, Ledger
from holdfast.memory.providers.openviking.settings import SCHEMA, OpenVikingSettings, read_settings
from holdfast.memory.providers.openviking.tools import SEARCH, TOOLS, run_search
from holdfast.memory.providers.recalled import block, one_line
from holdfast.memory.providers.tool_calls import function_schemas

T = TypeVar("T")

# Less than a boundary may take. What is not extracted by then is followed behind the scenes.
COMMIT_SECONDS = 2.0
LONGEST_MEMORY = 1200


@dataclass(frozen=True, slots=True)
class _Parts:
    """What lives on the loop."""

    api: OpenVikingApi
    ledger: Ledger
    writer: Writer


class OpenVikingMemory(BatchProvider):
    """Sends each turn once, has sessions extracted at their boundary, recalls. Thread-safe."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._path = folder / "openviking.db"
        self._clock = clock
        self._loop = ClientLoop(NAME)
        self._settings: OpenVikingSettings | None = None
        self._parts: _Parts | None = None
        close_at_exit(self)

    @property
    def name(self) -> str:
        return NAME

    @property
    def closed(self) -> bool:
        return self._loop.closing.is_set()

    def is_available(self) -> bool:
        return True

    def get_config_schema(self) -> list[dict[str, Any]]:
        return [dict(field) for field in SCHEMA]

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """Open the ledger, and take up what an earlier run left to be extracted."""
        self._settings = read_settings(kwargs.get("config") or ProviderConfig())
        self._run(self._take_up, self._settings.timeout_s)

    def check(self, config: ProviderConfig) -> str:
        """Ask the server something that needs the key, and its version."""
        settings = read_settings(config)

        async def ask(_: ClientLoop) -> str:
            api = OpenVikingApi(settings)
            try:
                return await api.version()
            finally:
                await api.aclose()

        version = asked_once(NAME, ask, settings.timeout_s * 2)
        return f"OpenViking {version} at {settings.url}"

    # writing

    def sync_turns(self, turns: Sequence[CompletedTurn]) -> None:
        """Return once the server has every turn; raises otherwise."""
        limit = self._known().timeout_s * (2 + len(turns))
        self._run(lambda parts: parts.writer.deliver(turns), limit)

    def on_session_end(self, messages: list[Message], *, session_id: str = "") -> None:
        """Commit what was sent for the session; for all sessions, when none is named."""
        self._run(lambda parts: self._commit(parts, session_id), self._known().timeout_s * 3)

    def on_session_switch(
        self,
        new_session_id: str,
        *,
        parent_session_id: str = "",
        reset: bool = False,
        rewound: bool = False,
        **kwargs: Any,
    ) -> None:
        """What was sent for the session left behind is committed under its own name."""
        if parent_session_id and not rewound:
            self._run(lambda parts: self._commit(parts, parent_session_id), self._known().timeout_s * 3)

    async def _take_up(self, parts: _Parts) -> None:
        for stretch in parts.ledger.stretches():
            _ = self._loop.spawn(parts.writer.follow(stretch.id))

    async def _commit(self, parts: _Parts, session_id: str) -> None:
        sessions = [session_id] if session_id else parts.ledger.sessions_to_commit()
        followed = []
        for session in sessions:
            stretch = await parts.writer.commit(session)
            if stretch is not None:
                followed.append(self._loop.spawn(parts.writer.follow(stretch)))
        if followed:
            await asyncio.wait(followed, timeout=COMMIT_SECONDS)

    # reading

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        return block([f"- {text}" for text in self.search(query, self._known().recall_limit)])

    def search(self, query: str, limit: int) -> list[str]:
        """The memories that fit the query, best first."""
        found = self._run(lambda parts: parts.api.find(query, limit), self._known().timeout_s)
        return [text for each in found if (text := _text(each))]

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        return function_schemas(TOOLS)

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:
        if tool_name != SEARCH:
            return super().handle_tool_call(tool_name, args, **kwargs)
        return run_search(self, args)

    def system_prompt_block(self) -> str:
        return (
            "You have a long-term memory on OpenViking. What fits a message is recalled by itself; use"
            " openviking_search to look for more. Conversations are kept by themselves."
        )

    def describe(self) -> Counts:
        """How many turns stand where, for `doctor`."""

        async def count(parts: _Parts) -> Counts:
            return parts.ledger.counts()

        return self._run(count, self._known().timeout_s)

    # ending

    def shutdown(self, patience: float = DRAIN_SECONDS) -> None:
        """Close the gate, let a request under way end, close client and ledger. Again: nothing."""
        self._loop.close(self._aclose, patience)

    async def _aclose(self) -> None:
        parts, self._parts = self._parts, None
        if parts is not None:
            await parts.api.aclose()
            parts.ledger.release_all()
            parts.ledger.close()

    def _known(self) -> OpenVikingSettings:
        if self._settings is None:
            raise ProviderUnavailable(NAME, problem="it is not initialised")
        return self._settings

    def _run(self, call: Callable[[_Parts], Coroutine[Any, Any, T]], limit: float) -> T:
        settings = self._known()

        async def on_loop() -> T:
            if self._parts is None:
                # Made here: the client belongs to the loop, and the ledger to its thread.
                ledger, api = Ledger(self._path), OpenVikingApi(settings)
                self._parts = _Parts(api, ledger, Writer(api, ledger, self._clock))
            return await call(self._parts)

        return self._loop.run(on_loop, limit)


def _text(memory: dict[str, Any]) -> str:
    return one_line(str(memory.get("content") or memory.get("abstract") or ""), LONGEST_MEMORY)


def in_folder(folder: Path, clock: Clock) -> OpenVikingMemory:
    """How `openviking` is made by name."""
    return OpenVikingMemory(folder, clock)
