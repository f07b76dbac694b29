"""`OpenVikingMemory`: long-term memory on an OpenViking server. Read `writer.py` for how turns get there."""

import asyncio
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from holdfast.core.contract import Clock, Message
from holdfast.core.errors import StoreGone
from holdfast.memory.config import ProviderConfig
from holdfast.memory.contract import CompletedTurn
from holdfast.memory.forgetting import ForgetReport, ForgetRequest, turns_kept
from holdfast.providers.openviking.api import NAME, OpenVikingApi
from holdfast.providers.openviking.ledger import Ledger, LedgerCounts
from holdfast.providers.openviking.settings import SCHEMA, OpenVikingSettings, read_settings
from holdfast.providers.openviking.tools import OpenVikingSearchArguments
from holdfast.providers.openviking.writer import OpenVikingWriter
from holdfast.providers.recall_text import one_line, recall_block_text
from holdfast.providers.server_provider import ServerProvider, ask_once

# Shorter than a boundary may take. A batch that is not extracted by then is followed in the background.
COMMIT_SECONDS = 2.0
MAX_MEMORY_LENGTH = 1200
# About as many as it takes to delete what was made of one conversation.
FORGET_REQUESTS = 20


@dataclass(frozen=True, slots=True)
class _Parts:
    """The objects that belong to the event loop: the client, and the ledger, which serves one thread."""

    api: OpenVikingApi
    ledger: Ledger
    writer: OpenVikingWriter

    async def aclose(self) -> None:
        with closing(self.ledger):
            await self.api.aclose()
            # What was moved away can't be released: the next process sees that this one has ended.
            with suppress(StoreGone):
                self.ledger.release_all()


class OpenVikingMemory(ServerProvider[OpenVikingSettings, _Parts]):
    """Sends each turn once, commits sessions at their boundary and recalls. Thread-safe."""

    name = NAME
    tools: ClassVar = {"openviking_search": OpenVikingSearchArguments}
    schema = SCHEMA

    def __init__(self, folder: Path, clock: Clock) -> None:
        super().__init__(clock)
        self._path = folder / "openviking.db"

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """Open the ledger and follow the batches that an earlier run has left."""
        self._settings = read_settings(kwargs.get("config") or ProviderConfig())
        self.ask(self._resume_batches)

    def check(self, config: ProviderConfig) -> str:
        """Make a request that needs the key, and ask for the version."""
        settings = read_settings(config)
        version = ask_once(
            NAME, lambda _: OpenVikingApi(settings), lambda api: api.version(), settings.timeout_s * 2
        )
        return f"OpenViking {version} at {settings.url}"

    def open_client(self) -> _Parts:
        ledger, api = Ledger(self._path), OpenVikingApi(self.settings)
        return _Parts(api, ledger, OpenVikingWriter(api, ledger, self._clock))

    # writing

    def sync_turns(self, turns: Sequence[CompletedTurn]) -> None:
        """Return when the server has every turn; raises otherwise."""
        self.ask(lambda parts: parts.writer.deliver(turns), self.settings.timeout_s * (2 + len(turns)))

    def forget_selected(self, request: ForgetRequest) -> ForgetReport:
        """Delete whole sessions with the memories that were made of them alone; no single turns."""
        seconds = self.settings.timeout_s * (2 + FORGET_REQUESTS * len(request.sessions))
        deleted, shared = self.ask(lambda parts: parts.writer.forget(request.sessions), seconds)
        kept = [turns_kept(request)] if turns_kept(request) else []
        if shared:
            stay = "1 memory stays" if shared == 1 else f"{shared} memories stay"
            kept.append(f"{stay} that it made of other conversations too; delete them on the server")
        return ForgetReport(deleted, "; ".join(kept))

    def on_session_end(self, messages: list[Message], *, session_id: str = "") -> None:
        """Commit the sent turns of the session, or of all sessions when none is given."""
        self.ask(lambda parts: self._commit(parts, session_id), self.settings.timeout_s * 3)

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
            self.on_session_end([], session_id=parent_session_id)

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
        return recall_block_text([f"- {text}" for text in self.search(query, self.settings.recall_limit)])

    def search(self, query: str, limit: int) -> list[str]:
        """The memories for the query, best match first."""
        found = self.ask(lambda parts: parts.api.find(query, limit))
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

        return self.ask(count)


def _text(memory: dict[str, Any]) -> str:
    return one_line(str(memory.get("content") or memory.get("abstract") or ""), MAX_MEMORY_LENGTH)


def in_folder(folder: Path, clock: Clock) -> OpenVikingMemory:
    """Create the provider `openviking`."""
    return OpenVikingMemory(folder, clock)
