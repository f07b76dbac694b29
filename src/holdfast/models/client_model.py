"""`ClientModel`: the base of adapters to servers. It makes one client at first use and closes it once."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from typing import Generic, Protocol, TypeVar

from holdfast.core.clock import SystemClock
from holdfast.core.contract import Clock
from holdfast.models.contract import ModelPiece, ModelRequest, ModelTraits
from holdfast.models.server import Server
from holdfast.process import DaemonPool, off_loop


class Client(Protocol):
    """The connections to a server."""

    async def close(self) -> None: ...


C = TypeVar("C", bound=Client)


class ClientModel(ABC, Generic[C]):
    """A model behind a server."""

    def __init__(self, server: Server, traits: ModelTraits, *, clock: Clock | None = None) -> None:
        self._server = server
        self._traits = traits
        self._clock = clock or SystemClock()
        self._client: C | None = None
        self._opening = asyncio.Lock()  # guards _client while it is made

    @property
    def traits(self) -> ModelTraits:
        return self._traits

    @abstractmethod
    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        """The answer, piece by piece."""

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _opened(self) -> C:
        if self._client is not None:
            return self._client
        async with self._opening:
            if self._client is None:
                pool = DaemonPool(f"loading {self._traits.name}", workers=1, backlog=0)
                try:
                    self._client = await off_loop(pool, self._new_client)
                finally:
                    pool.close(0)
            return self._client

    @abstractmethod
    def _new_client(self) -> C:
        """Make the client.

        It runs on a thread: to import a library takes a second, and interrupts must not wait.
        """
