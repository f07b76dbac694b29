"""Names are looked up on threads of their own: one that hangs holds up nobody else."""

import asyncio
import socket
import threading
from collections.abc import Awaitable
from functools import partial
from typing import TypeVar

import pytest

from holdfast.process import NameLookup
from holdfast.process.http_transport import direct_transport
from holdfast.process.name_lookup import (
    MAX_PER_NAME,
    MAX_THREADS,
    SHARE_SECONDS,
    AddressInfo,
)
from holdfast.testing import FakeClock
from tests.agent.agent_fixtures import until

T = TypeVar("T")
FOUND: list[AddressInfo] = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.7", 80))]


class Resolver:
    """Names that begin with `hang` are answered once the gate is open."""

    def __init__(self, gate: threading.Event) -> None:
        self.asked: list[str] = []
        self._gate = gate

    def was_asked(self, times: int) -> bool:
        return len(self.asked) == times

    def __call__(self, host: str, *_: object) -> list[AddressInfo]:
        self.asked.append(host)
        if host.startswith("hang"):
            self._gate.wait()
        if host == "missing":
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return FOUND


def run(work: Awaitable[T]) -> T:
    async def bounded() -> T:
        return await asyncio.wait_for(work, 20)

    return asyncio.run(bounded())


@pytest.mark.clause("X5")
def test_names_that_hang_do_not_hold_up_others_and_take_a_thread_each(gate: threading.Event) -> None:
    resolver = Resolver(gate)
    names = NameLookup(resolver)

    async def scenario() -> list[str]:
        hanging = [asyncio.create_task(names.addresses(f"hang{number % 10}", 80)) for number in range(1000)]
        await until(lambda: len(resolver.asked) == 10)
        found = await names.addresses("other", 80)
        for each in hanging:
            each.cancel()
        return found

    assert run(scenario()) == ["192.0.2.7"]
    assert len(resolver.asked) == 11


@pytest.mark.clause("X5")
def test_a_lookup_that_is_given_up_is_asked_anew_later_though_not_for_ever(gate: threading.Event) -> None:
    clock, resolver = FakeClock(), Resolver(gate)
    names = NameLookup(resolver, clock=clock)

    async def scenario() -> None:
        for times in range(1, 6):
            asking = asyncio.create_task(names.addresses("hang", 80))
            await until(partial(resolver.was_asked, min(times, MAX_PER_NAME)))
            asking.cancel()
            clock.advance(SHARE_SECONDS)

    run(scenario())
    assert len(resolver.asked) == MAX_PER_NAME


@pytest.mark.clause("X5")
def test_threads_are_bounded_and_one_too_many_is_refused_by_name(gate: threading.Event) -> None:
    resolver = Resolver(gate)
    names = NameLookup(resolver)

    async def scenario() -> None:
        hanging = [asyncio.create_task(names.addresses(f"hang{number}", 80)) for number in range(MAX_THREADS)]
        await until(lambda: len(resolver.asked) == MAX_THREADS)
        with pytest.raises(socket.gaierror, match="have not been answered yet"):
            await names.addresses("other", 80)
        gate.set()
        await asyncio.gather(*hanging)
        assert await names.addresses("other", 80) == ["192.0.2.7"]

    run(scenario())


def test_an_answer_reaches_all_who_asked_also_when_one_of_them_left(gate: threading.Event) -> None:
    resolver = Resolver(gate)
    names = NameLookup(resolver)

    async def scenario() -> list[list[str]]:
        asking = [asyncio.create_task(names.addresses("hang", 80)) for _ in range(3)]
        await until(lambda: bool(resolver.asked))
        asking[0].cancel()
        gate.set()
        return await asyncio.gather(*asking[1:])

    assert run(scenario()) == [["192.0.2.7"]] * 2


def test_a_name_that_is_not_there_raises_and_an_address_is_not_looked_up(gate: threading.Event) -> None:
    resolver = Resolver(gate)
    names = NameLookup(resolver)
    with pytest.raises(socket.gaierror, match="no such name"):
        run(names.addresses("missing", 80))
    assert run(names.addresses("::1", 80)) == ["::1"]
    assert resolver.asked == ["missing"]


def test_a_thread_that_is_kept_serves_the_next_lookup_until_it_is_closed() -> None:
    threads: set[threading.Thread] = set()

    def resolve(*_: object) -> list[AddressInfo]:
        threads.add(threading.current_thread())
        return FOUND

    names = NameLookup(resolve, keep=True)

    async def scenario() -> None:
        for _ in range(3):
            await names.addresses("other", 80)
            # It waits for the next one a moment after it has answered.
            await until(lambda: names.has_idle_thread)

    run(scenario())
    (kept,) = threads
    names.close()
    kept.join(20)
    assert not kept.is_alive()
    assert run(names.addresses("other", 80)) == ["192.0.2.7"]


def test_names_are_looked_up_here_unless_a_proxy_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("no_proxy", "localhost")
    assert direct_transport() is not None
    monkeypatch.setenv("https_proxy", "http://192.0.2.9:3128")
    assert direct_transport() is None
