"""`OpenVikingMemory`: long-term memory on an OpenViking server. Read `writer.py` for how turns get there.

The client and the ledger live on an event loop of their own thread, which is the provider's one writer: the
lanes wait there for answers, and `shutdown` closes both on that same thread.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from holdfast.core.contract import Clock, Message
from holdfast.core.errors import ProviderUnavailable
from holdfast.memory.config import ProviderConfig
from holdfast.memory.contract import CompletedTurn
from holdfast.providers.batch_provider import BatchProvider
from holdfast.providers.client_loop import DRAIN_SECONDS, ClientLoop, ask_once, close_at_exit
from holdfast.providers.openviking.api import NAME, OpenVikingApi
from holdfast.providers.openviking.ledger import Ledger, LedgerCounts
from holdfast.providers.openviking.settings import SCHEMA, OpenVikingSettings, read_settings
from holdfast.providers.openviking.tools import OpenVikingSearchArguments
from holdfast.providers.openviking.writer import OpenVikingWriter
from holdfast.providers.recall_text import one_line, recall_block_text

T = TypeVar("T")

# Shorter than a boundary may take. A batch that is not extracted by then is followed in the background.
COMMIT_SECONDS = 2.0
MAX_MEMORY_LENGTH = 1200


@dataclass(frozen=True, slots=True)
class _Parts:
    """The objects that belong to the event loop."""

    api: OpenVikingApi
    ledger: Ledger
    writer: OpenVikingWriter


class OpenVikingMemory(BatchProvider):
    """Sends each turn once, commits sessions at their boundary and recalls. Thread-safe."""

    tools: ClassVar = {"openviking_search": OpenVikingSearchArguments}

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
        """Open the ledger and follow the batches that an earlier run has left."""
        self._settings = read_settings(kwargs.get("config") or ProviderConfig())
        self._run(self._resume_batches, self._settings.timeout_s)

    def check(self, config: ProviderConfig) -> str:
        """Make a request that needs the key, and ask for the version."""
        settings = read_settings(config)

        async def ask(_: ClientLoop) -> str:
            api = OpenVikingApi(settings)
            try:
                return await api.version()
            finally:
                await api.aclose()

        version = ask_once(NAME, ask, settings.timeout_s * 2)
        return f"OpenViking {version} at {settings.url}"

    # writing

    def sync_turns(self, turns: Sequence[CompletedTurn]) -> None:
        """Return when the server has every turn; raises otherwise."""
        limit = self._require_settings().timeout_s * (2 + len(turns))
        self._run(lambda parts: parts.writer.deliver(turns), limit)

    def on_session_end(self, messages: list[Message], *, session_id: str = "") -> None:
        """Commit the sent turns of the session, or of all sessions when none is given."""
        self._run(lambda parts: self._commit(parts, session_id), self._require_settings().timeout_s * 3)

    def on_session_switch(
        self,
        new_session_id: str,
        *,
        parent_session_id: str = "",
        reset: bool = False,
        rewound: bool = False,
        **kwargs: Any,
    ) -> None:
        """Commit the sent turns of the session that has ended."""
        if parent_session_id and not rewound:
            self._run(
                lambda parts: self._commit(parts, parent_session_id), self._require_settings().timeout_s * 3
            )

    async def _resume_batches(self, parts: _Parts) -> None:
        for batch in parts.ledger.batches():
            _ = self._loop.spawn(parts.writer.follow(batch.id))

    async def _commit(self, parts: _Parts, session_id: str) -> None:
        sessions = [session_id] if session_id else parts.ledger.sessions_to_commit()
        followed = []
        for session in sessions:
            batch = await parts.writer.commit(session)
            if batch is not None:
                followed.append(self._loop.spawn(parts.writer.follow(batch)))
        if followed:
            await asyncio.wait(followed, timeout=COMMIT_SECONDS)

    # reading

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        return recall_block_text(
            [f"- {text}" for text in self.search(query, self._require_settings().recall_limit)]
        )

    def search(self, query: str, limit: int) -> list[str]:
        """The memories for the query, best match first."""
        found = self._run(lambda parts: parts.api.find(query, limit), self._require_settings().timeout_s)
        return [text for each in found if (text := _text(each))]

    def system_prompt_block(self) -> str:
        return (
            "You have a long-term memory on OpenViking. What fits a message is recalled by itself; use"
            " openviking_search to look for more. Conversations are kept by themselves."
        )

    def describe(self) -> LedgerCounts:
        """The number of turns in each state, for `doctor`."""

        async def count(parts: _Parts) -> LedgerCounts:
            return parts.ledger.counts()

        return self._run(count, self._require_settings().timeout_s)

    # ending

    def shutdown(self, patience: float = DRAIN_SECONDS) -> None:
        """Refuse further calls, let a running request finish, close client and ledger. May be repeated."""
        self._loop.close(self._aclose, patience)

    async def _aclose(self) -> None:
        parts, self._parts = self._parts, None
        if parts is not None:
            await parts.api.aclose()
            parts.ledger.release_all()
            parts.ledger.close()

    def _require_settings(self) -> OpenVikingSettings:
        if self._settings is None:
            raise ProviderUnavailable(NAME, problem="it is not initialised")
        return self._settings

    def _run(self, call: Callable[[_Parts], Coroutine[Any, Any, T]], limit: float) -> T:
        settings = self._require_settings()

        async def on_loop() -> T:
            if self._parts is None:
                # Created here: the client belongs to the loop, and the ledger to its thread.
                ledger, api = Ledger(self._path), OpenVikingApi(settings)
                self._parts = _Parts(api, ledger, OpenVikingWriter(api, ledger, self._clock))
            return await call(self._parts)

        return self._loop.run(on_loop, limit)


def _text(memory: dict[str, Any]) -> str:
    return one_line(str(memory.get("content") or memory.get("abstract") or ""), MAX_MEMORY_LENGTH)


def in_folder(folder: Path, clock: Clock) -> OpenVikingMemory:
    """Create the provider `openviking`."""
    return OpenVikingMemory(folder, clock)
