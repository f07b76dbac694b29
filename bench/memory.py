"""Memory: what handing a turn over costs its caller, and how the lanes deliver."""

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from bench.rounds import MILLI, Comparison, Scale, compare, take_turns
from bench.table import Row, row
from holdfast.memory import CompletedTurn, MemoryManager
from holdfast.sessions import SessionDB
from holdfast.testing.providers import OneByOneProvider, RecordingProvider

USER, ASSISTANT = "u" * 200, "a" * 800
SLOW_SECONDS = 0.5
CALL_SECONDS = 0.001


class QueuePair:
    """The bare control: two queues, each with a thread that wakes up for every item."""

    def __init__(self) -> None:
        self._queues: list[queue.Queue[object]] = [queue.Queue(), queue.Queue()]
        for each in self._queues:
            threading.Thread(target=self._consume, args=(each,), daemon=True).start()

    def hand_over(self, session: str) -> None:
        for each in self._queues:
            each.put((USER, ASSISTANT, session))

    def _consume(self, items: "queue.Queue[object]") -> None:
        while items.get() is not None:
            pass

    def close(self) -> None:
        for each in self._queues:
            each.put(None)


def paused_medians(calls: dict[str, Callable[[int], object]], rounds: int) -> dict[str, list[float]]:
    """The time of single calls, each with rest before it, so that a sleeping thread must be woken."""
    rest = threading.Event()
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds):
        for name, call in calls.items():
            rest.wait(0.002)
            begun = time.perf_counter()
            call(number)
            taken[name].append((time.perf_counter() - begun) * MILLI * MILLI)
    return taken


def medians(taken: Sequence[float], size: int) -> list[float]:
    return [median(taken[at : at + size]) for at in range(0, len(taken), size)]


def hand_over_rows(folder: Path, scale: Scale) -> Iterator[Row]:
    """Both calls of a turn on the caller's thread, over 1, 10 and 100 sessions."""
    size, rounds = 20, 20 * max(2, scale.rounds)
    for sessions in (1, 10, 100):
        control, memory = QueuePair(), MemoryManager()
        memory.add_provider(RecordingProvider())
        store = SessionDB(folder / f"hand-over-{sessions}.db")
        durable = MemoryManager(store)
        durable.add_provider(RecordingProvider())
        plain = SessionDB(folder / f"plain-{sessions}.db")
        for each in range(sessions):
            plain.create_session(f"s{each}", source="bench")

        def turn(manager: MemoryManager, number: int, sessions: int = sessions) -> None:
            session = f"s{number % sessions}"
            manager.sync_all(USER, ASSISTANT, session_id=session)
            manager.queue_prefetch_all(USER, session_id=session)

        taken = paused_medians(
            {
                "control": lambda number, c=control, n=sessions: c.hand_over(f"s{number % n}"),  # type: ignore[misc]
                "memory": lambda number, m=memory: turn(m, number),  # type: ignore[misc]
                "commit": lambda number, p=plain, n=sessions: p.sessions.append_messages(  # type: ignore[misc]
                    f"s{number % n}",
                    [{"role": "user", "content": USER}, {"role": "assistant", "content": ASSISTANT}],
                ),
                "durable": lambda number, m=durable: turn(m, number),  # type: ignore[misc]
            },
            rounds,
        )
        halves = {name: medians(each, size) for name, each in taken.items()}
        what = f"hand-over, {sessions} session{'s' if sessions > 1 else ''}"
        yield row(
            f"{what}: two bare queues, memory", "µs", compare(halves["control"], halves["memory"]), at_most=2
        )
        yield row(
            f"{what}: one commit of the same turn, durable",
            "µs",
            compare(halves["commit"], halves["durable"]),
        )
        for manager in (memory, durable):
            manager.shutdown_all()
        control.close()
        store.close()
        plain.close()


def isolation_rows(scale: Scale) -> Iterator[Row]:
    """A fast provider's delay, alone and beside one that takes half a second for each delivery."""

    def delays(slow: bool) -> list[float]:
        memory, fast, arrived = MemoryManager(drain_seconds=0.1), RecordingProvider("fast"), threading.Event()
        fast.before = lambda _: arrived.set()
        memory.add_provider(fast)
        if slow:
            other, never = RecordingProvider("slow"), threading.Event()
            other.before = partial(_pause, never, SLOW_SECONDS)
            memory.add_provider(other)
        taken = []
        for number in range(20 * scale.rounds):
            arrived.clear()
            begun = time.perf_counter()
            memory.sync_all(USER, ASSISTANT, session_id=f"s{number % 10}")
            arrived.wait(60)
            taken.append((time.perf_counter() - begun) * MILLI)
        memory.shutdown_all()
        return medians(taken, 20)

    alone, beside = delays(slow=False), delays(slow=True)
    yield row("a fast provider's delay: alone, beside one of 0.5 s", "ms", compare(alone, beside))


def throughput_rows(scale: Scale) -> Iterator[Row]:
    """Turns per second to a backend that takes a millisecond a call: one by one, and in batches."""
    turns = max(20, scale.appends * 2)

    def deliver(provider: RecordingProvider) -> None:
        provider.before = partial(_pause, threading.Event(), CALL_SECONDS)
        memory = MemoryManager()
        memory.add_provider(provider)
        for number in range(turns):
            memory.sync_all(USER, ASSISTANT, session_id=f"s{number % 10}")
        memory.flush_pending(120)
        memory.shutdown_all()

    samples = take_turns(
        {
            "one by one": lambda: deliver(OneByOneProvider()),
            "batches": lambda: deliver(RecordingProvider()),
        },
        rounds=max(2, scale.rounds // 3),
        operations=turns,
    )
    rates = {name: [MILLI / each.wall for each in taken] for name, taken in samples.items()}
    compared: Comparison = compare(rates["one by one"], rates["batches"])
    yield row("delivery to a backend of 1 ms a call: one by one, in batches", "turns/s", compared)


def _pause(never: threading.Event, seconds: float, _: Sequence[CompletedTurn]) -> None:
    never.wait(seconds)


def memory_rows(folder: Path, scale: Scale) -> Iterator[Row]:
    yield from hand_over_rows(folder, scale)
    yield from isolation_rows(scale)
    yield from throughput_rows(scale)
