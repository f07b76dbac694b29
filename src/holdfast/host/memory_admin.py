"""`MemoryAdmin`: the questions and decisions about memory that every surface offers a person."""

from holdfast.core.errors import InvalidInput
from holdfast.host.contract import HostParts
from holdfast.host.store_calls import StoreCalls
from holdfast.memory.browse import MemorySearchResult
from holdfast.memory.contract import ProviderStatus
from holdfast.process import off_loop
from holdfast.sessions.contract import Delivery


class MemoryAdmin:
    """How memory stands, what it holds, and what was set aside. Every method on the host's loop."""

    def __init__(self, parts: HostParts, call: StoreCalls) -> None:
        self._parts = parts
        self._call = call

    async def status(self) -> list[ProviderStatus]:
        """How every provider stands."""
        return await self._call(self._parts.memory.status)

    async def search(self, query: str, *, provider: str = "", limit: int = 20) -> MemorySearchResult:
        """Search the providers' memories; an empty name means all of them that answer."""
        self._call.require_open()
        return await off_loop(
            self._parts.pools.work, self._parts.memory.search, query, provider=provider, limit=limit
        )

    async def forget(self, provider: str, memory_id: str) -> None:
        """Remove something from a provider's memory for good; the conversation itself stays on record."""
        self._call.require_open()
        if not await off_loop(self._parts.pools.work, self._parts.memory.forget, provider, memory_id):
            raise InvalidInput(f"{provider} has nothing with the id {memory_id!r}")

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
