"""`MemoryAdmin`: the questions and decisions about memory that every surface offers a person."""

from collections.abc import Sequence

from holdfast.core.errors import InvalidInput
from holdfast.host.contract import HostParts
from holdfast.host.store_calls import StoreCalls
from holdfast.memory.browse import MemorySearchResult
from holdfast.memory.contract import ProviderStatus, TextVectors
from holdfast.memory.forget_selection import ForgetQuery, ForgetSelection
from holdfast.process import off_loop
from holdfast.sessions.contract import OWNER, Delivery
from holdfast.sessions.forgettings import Forgetting

SAVE_NOTE = "memory_save"
"""The tool by which providers save a note."""


class MemoryAdmin:
    """How memory stands, what it holds, and what was set aside. Every method on the host's loop."""

    def __init__(self, parts: HostParts, call: StoreCalls) -> None:
        self._parts = parts
        self._call = call

    async def status(self) -> list[ProviderStatus]:
        """How every provider stands."""
        return await self._call(self._parts.memory.status)

    async def search(
        self, query: str, *, provider: str = "", limit: int = 20, scope: str = OWNER
    ) -> MemorySearchResult:
        """Search the providers' memories of a scope; an empty name means all of them that answer."""
        self._call.require_open()
        search = self._parts.memory.search
        return await off_loop(
            self._parts.pools.work, search, query, provider=provider, limit=limit, scope=scope
        )

    async def embed(self, texts: Sequence[str]) -> TextVectors:
        """The texts as vectors of the embedding model that memory has; refused when it has none."""
        self._call.require_open()
        return await off_loop(self._parts.pools.work, self._parts.memory.embed, texts)

    async def remember(self, text: str) -> str:
        """Save a note in the first provider that keeps notes; returns what it says."""
        self._call.require_open()
        return await off_loop(
            self._parts.pools.work, self._parts.memory.handle_tool_call, SAVE_NOTE, {"text": text}
        )

    async def select(self, query: ForgetQuery) -> ForgetSelection:
        """What would be forgotten; nothing is changed."""
        self._call.require_open()
        return await off_loop(self._parts.pools.work, lambda: self._parts.memory.forgetter.select.of(query))

    async def forget(self, query: ForgetQuery, *, key: str | None = None) -> Forgetting:
        """Forget it in every provider for good; the conversation itself stays on record.

        It is stored first, so a crash does not lose it. Returns how far it has come after some seconds.
        """
        self._call.require_open()
        return await off_loop(self._parts.pools.work, self._forget, query, key)

    def _forget(self, query: ForgetQuery, key: str | None) -> Forgetting:
        forgetter = self._parts.memory.forgetter
        number = self._parts.db.forgettings.number_of(key) if key else None
        if number is None:
            selection = forgetter.select.of(query)
            if selection.is_empty:
                raise InvalidInput("nothing in memory fits that; nothing was forgotten")
            number = forgetter.forget(selection, key=key)
        record = forgetter.wait(number)
        if record is None:
            raise InvalidInput("the record of the forgetting is gone")
        return record

    async def forget_conversation(self, session_id: str) -> None:
        """Have every provider forget a conversation that is about to be deleted; does not wait for them."""
        self._call.require_open()

        def accept() -> None:
            forgetter = self._parts.memory.forgetter
            selection = forgetter.select.by_conversation(session_id)
            if not selection.is_empty:
                forgetter.forget(selection)

        await off_loop(self._parts.pools.work, accept)

    async def forgotten(self, *, before: int | None = None, limit: int = 50) -> list[Forgetting]:
        """What was forgotten, newest first: when and how much, without its content."""
        page = {} if before is None else {"before": before}
        return await self._call(self._parts.db.forgettings.list, limit=limit, **page)

    async def retry_forgetting(self, number: int) -> None:
        """Try a forgetting again where it failed."""
        await self._call(self._parts.memory.forgetter.retry, number)

    async def set_aside(self, *, after: int = 0, limit: int = 100) -> list[Delivery]:
        """Turns that could not be delivered and wait for a decision, oldest first."""
        return await self._call(self._parts.db.outbox.list, "set_aside", after=after, limit=limit)

    async def retry(self, delivery_id: int) -> None:
        """Owe a turn again that was set aside; it is sent at once."""
        await self._call(self._parts.db.outbox.retry, delivery_id)
        self._parts.memory.wake()

    async def drop(self, delivery_id: int) -> None:
        """Give up sending a turn that was set aside; it stays on record as dropped."""
        await self._call(self._parts.db.outbox.drop, delivery_id)
