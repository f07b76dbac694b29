"""`NameLookup`: looks up the addresses of host names on daemon threads that do nothing else.

asyncio looks up names on its default executor, whose threads the interpreter joins: a lookup that hangs would
delay the exit and, on a shared pool, block other work. Here a name whose lookup hangs uses a few threads at
most.
"""

import asyncio
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, NamedTuple

from holdfast.core.clock import SystemClock
from holdfast.core.contract import Clock
from holdfast.core.server_url import is_address

MAX_THREADS = 64
MAX_PER_NAME = 3
SHARE_SECONDS = 15.0
"""A new request for the same name shares a lookup that is younger than this. An older one counts as hung."""

AddressInfo = tuple[Any, Any, int, str, Any]
"""As `socket.getaddrinfo` gives it: family, kind, protocol, canonical name, address."""
Resolve = Callable[..., list[AddressInfo]]


class Query(NamedTuple):
    """The arguments of `socket.getaddrinfo`."""

    host: Any
    port: Any
    family: int = 0
    type: int = 0
    proto: int = 0
    flags: int = 0


@dataclass(frozen=True, slots=True)
class _Lookup:
    began: float
    answer: "Future[list[AddressInfo]]" = field(default_factory=Future)


NextLookups = SimpleQueue[tuple[Query, _Lookup] | None]


class NameLookup:
    """Looks up names. A thread ends with its lookup, so there is nothing to close.

    Since Python 3.12 no thread starts while the interpreter exits. With `keep`, one thread waits for the next
    lookup, so that names can be looked up even then; `close` ends it.
    """

    def __init__(
        self, resolve: Resolve | None = None, *, clock: Clock | None = None, keep: bool = False
    ) -> None:
        self._resolve = resolve
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()  # guards the fields below
        self._under_way: dict[Query, list[_Lookup]] = {}
        self._keep = keep
        self._idle: NextLookups | None = None
        """The queue from which the waiting thread takes its next lookup."""

    @property
    def has_idle_thread(self) -> bool:
        """Whether a thread waits for the next lookup now."""
        return self._idle is not None

    def close(self) -> None:
        """End the waiting thread. Names can still be looked up."""
        with self._lock:
            self._keep = False
            idle, self._idle = self._idle, None
        if idle is not None:
            idle.put(None)

    async def find(self, host: Any, port: Any, **options: int) -> list[AddressInfo]:  # noqa: ANN401
        """Do what `socket.getaddrinfo` does; a cancellation takes effect at once."""
        return await asyncio.wrap_future(self._submit(Query(host, port, **options)))

    async def addresses(self, host: str, port: int) -> list[str]:
        """The addresses of a server, the best one first."""
        if is_address(host):
            return [host]
        found = await self.find(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        return list(dict.fromkeys(str(each[4][0]) for each in found))

    def _submit(self, query: Query) -> "Future[list[AddressInfo]]":
        now = self._clock.monotonic()
        with self._lock:
            same = self._under_way.get(query, [])
            if same and (now - same[-1].began < SHARE_SECONDS or len(same) >= MAX_PER_NAME):
                return same[-1].answer
            if sum(map(len, self._under_way.values())) >= MAX_THREADS:
                raise socket.gaierror(
                    socket.EAI_AGAIN, f"{MAX_THREADS} lookups of other names have not been answered yet"
                )
            lookup = _Lookup(now)
            # A caller that stops waiting must not cancel the lookup for the others.
            lookup.answer.set_running_or_notify_cancel()
            self._under_way.setdefault(query, []).append(lookup)
            try:
                self._hand_over(query, lookup)
            except RuntimeError as cause:
                self._forget(query, lookup)
                raise socket.gaierror(socket.EAI_AGAIN, f"no thread can be had for it: {cause}") from cause
        return lookup.answer

    def _hand_over(self, query: Query, lookup: _Lookup) -> None:
        """Give the lookup to the waiting thread, or to a new one. The caller holds the lock."""
        idle, self._idle = self._idle, None
        if idle is not None:
            idle.put((query, lookup))
        else:
            threading.Thread(target=self._work, args=[query, lookup], name="name-lookup", daemon=True).start()

    def _forget(self, query: Query, lookup: _Lookup) -> None:
        self._under_way[query].remove(lookup)
        if not self._under_way[query]:
            del self._under_way[query]

    def _work(self, query: Query, lookup: _Lookup) -> None:
        following: tuple[Query, _Lookup] | None = (query, lookup)
        while following is not None:
            next_lookups = self._answer(*following)
            following = None if next_lookups is None else next_lookups.get()

    def _answer(self, query: Query, lookup: _Lookup) -> "NextLookups | None":
        """Answer a lookup; returns where the next one comes from, when this thread is the one that waits."""
        found: list[AddressInfo] = []
        failure: Exception | None = None
        next_lookups: NextLookups | None = None
        try:
            found = (self._resolve or socket.getaddrinfo)(*query)
        except Exception as cause:  # noqa: BLE001 - the future carries it to the callers
            failure = cause
        with self._lock:
            self._forget(query, lookup)
            # Before the answer is out: the caller's next lookup may come while the interpreter exits.
            if self._keep and self._idle is None:
                next_lookups = self._idle = SimpleQueue()
        if failure is None:
            lookup.answer.set_result(found)
        else:
            lookup.answer.set_exception(failure)
        return next_lookups
