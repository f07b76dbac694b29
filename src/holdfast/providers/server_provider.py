"""`ServerProvider`: the base of providers with the async client of a memory server.

The client lives on an event loop on its own thread (`ClientLoop`), which is the only writer: the lanes wait
for its answers, and `shutdown` closes the client on that same thread.
"""

import atexit
import weakref
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from holdfast.core.contract import Clock
from holdfast.core.errors import MemoryClosed, PoolClosed, ProviderUnavailable
from holdfast.process.loop_thread import LoopThread, Work
from holdfast.providers.batch_provider import BatchProvider


class AsyncClient(Protocol):
    """A client that is used and closed on one event loop."""

    async def aclose(self) -> None: ...


class ServerSettings(Protocol):
    """The part of the settings that every server has."""

    @property
    def timeout_s(self) -> float: ...


T = TypeVar("T")
ClientT = TypeVar("ClientT", bound=AsyncClient)
SettingsT = TypeVar("SettingsT", bound=ServerSettings)

# Together with closing the client, a shutdown takes at most ten seconds.
DRAIN_SECONDS = 8.0
# At exit the manager has drained already; a turn that is still being sent is sent again at the next start.
DRAIN_AT_EXIT_SECONDS = 2.0


class ClientLoop(LoopThread):
    """The event loop of one provider; translates its errors into those of the memory contract."""

    def __init__(self, provider: str) -> None:
        super().__init__(f"memory-{provider}")
        self._provider = provider

    def run(self, work: Work[T], timeout: float | None = None) -> T:
        try:
            return super().run(work, timeout)
        except PoolClosed as cause:
            raise MemoryClosed(self._provider) from cause
        except TimeoutError as cause:
            when = "time" if timeout is None else f"{timeout:g} s"
            raise ProviderUnavailable(self._provider, problem=f"no answer in {when}") from cause


class ServerProvider(BatchProvider, Generic[SettingsT, ClientT]):
    """The settings and the client of one server. The first call creates the client on the loop."""

    schema: ClassVar[list[dict[str, Any]]]
    """The configuration fields."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop = ClientLoop(self.name)
        self._settings: SettingsT | None = None
        self._client: ClientT | None = None
        # Hooks run in reverse order, and the manager registers its own later: it drains first.
        atexit.register(_shut_down, weakref.ref(self))

    @abstractmethod
    def open_client(self) -> ClientT:
        """Create the client; called on the loop, to which the client then belongs."""

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def closed(self) -> bool:
        return self._loop.closing.is_set()

    def get_config_schema(self) -> list[dict[str, Any]]:
        return [dict(field) for field in self.schema]

    @property
    def settings(self) -> SettingsT:
        if self._settings is None:
            raise ProviderUnavailable(self.name, problem="it is not initialised")
        return self._settings

    def ask(self, call: Callable[[ClientT], Awaitable[T]], timeout: float | None = None) -> T:
        """Make a call with the client and wait for it; without a timeout, as long as one request may take."""
        limit = self.settings.timeout_s if timeout is None else timeout

        async def on_loop() -> T:
            if self._client is None:
                self._client = self.open_client()
            return await call(self._client)

        return self._loop.run(on_loop, limit)

    def shutdown(self, patience: float = DRAIN_SECONDS) -> None:
        """Refuse further calls, let a running one finish, then close the client. May be called again."""
        self._loop.close(self._aclose, patience)

    async def _aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


def ask_once(
    provider: str,
    open_client: Callable[[ClientLoop], ClientT],
    call: Callable[[ClientT], Awaitable[T]],
    timeout: float,
) -> T:
    """Make one call with a client and a loop that end with it: for the `check` of a provider."""
    loop = ClientLoop(provider)

    async def on_loop() -> T:
        client = open_client(loop)
        try:
            return await call(client)
        finally:
            await client.aclose()

    try:
        return loop.run(on_loop, timeout)
    finally:
        loop.close()


def _shut_down(provider: "weakref.ref[ServerProvider[Any, Any]]") -> None:
    alive = provider()
    if alive is not None:
        alive.shutdown(DRAIN_AT_EXIT_SECONDS)
