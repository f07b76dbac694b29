"""What is done to the nodes and the database, in an order of chance that a seed repeats."""

import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from bench.node_torture.database import FAST, IMMEDIATE, Bouncer, Database
from bench.node_torture.hits import Hit
from bench.node_torture.nodes import Node

Work = Callable[[], Coroutine[Any, Any, None]]
KILL, PAUSE, PARTITION = "node killed", "node paused longer than a lease", "node cut off from the database"
RESTART, CRASH, POOLER = (
    "database restarted",
    "database crashed and restarted",
    "PgBouncer killed and restarted",
)
WEIGHTS = {KILL: 5, PAUSE: 2, PARTITION: 4, RESTART: 1, CRASH: 1, POOLER: 2}
PAUSES = 16.0, 22.0
"""Longer than a lease, which is 12 seconds."""
PARTITIONS = 3.0, 25.0
AT_ONCE = 2
DATABASE = -1
LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class Fault:
    """One disturbance: of a node, or (`DATABASE`) of what all use."""

    kind: str
    node: int
    after: float
    """Seconds of quiet before it begins."""
    seconds: float = 0.0


def plan(count: int, nodes: int, seed: int) -> list[Fault]:
    """So many faults; the first ones are one of each kind."""
    chance = random.Random(seed)  # noqa: S311 - it chooses a disturbance
    kinds = list(WEIGHTS)
    chance.shuffle(kinds)
    kinds += chance.choices(list(WEIGHTS), weights=list(WEIGHTS.values()), k=max(0, count - len(kinds)))
    faults: list[Fault] = []
    last = DATABASE
    for kind in kinds[:count]:
        # Another one than the last: it need not wait until that one is through.
        others = [number for number in range(nodes) if number != last]
        node = last = chance.choice(others) if kind in (KILL, PAUSE, PARTITION) else DATABASE
        span = {PAUSE: PAUSES, PARTITION: PARTITIONS}.get(kind, (0.0, 0.0))
        faults.append(Fault(kind, node, chance.uniform(0.3, 2.5), chance.uniform(*span)))
    return faults


class Torturer:
    """Carries the faults out, at most two at a time, each on another target."""

    def __init__(
        self, nodes: Sequence[Node], database: Database, bouncer: Bouncer, pooled: Sequence[int]
    ) -> None:
        self._nodes = nodes
        self._pooled = pooled  # the nodes that reach the database through PgBouncer
        self._database = database
        self._bouncer = bouncer
        self._busy = {number: asyncio.Lock() for number in (DATABASE, *range(len(nodes)))}
        self.hits: list[Hit] = []
        """What was carried out."""
        self.ended: Counter[str] = Counter()
        """Nodes that ended by themselves, and were started again."""

    async def carry_out(self, faults: Sequence[Fault]) -> None:
        slots = asyncio.Semaphore(AT_ONCE)
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number, fault in enumerate(faults):
                await asyncio.sleep(fault.after)
                await slots.acquire()
                await self._busy[fault.node].acquire()
                at = time.monotonic() - began
                where = "" if fault.node == DATABASE else f" (node {fault.node}, {fault.seconds:.0f} s)"
                print(f"{at:7.1f} s: {number + 1} of {len(faults)}: {fault.kind}{where}", file=sys.stderr)
                group.create_task(self._carry_out(fault, slots))

    async def _carry_out(self, fault: Fault, slots: asyncio.Semaphore) -> None:
        began = time.time()
        try:
            await self._work(fault)()
            self.hits.append(
                Hit(
                    fault.kind,
                    frozenset(each.host_name for each in self._nodes if self._is_hit(each, fault)),
                    began,
                    time.time(),
                    kills=fault.kind == KILL,
                    stops_nodes=fault.node != DATABASE,
                )
            )
        finally:
            self._busy[fault.node].release()
            slots.release()

    def _is_hit(self, node: Node, fault: Fault) -> bool:
        if fault.node != DATABASE:
            return node.number == fault.node
        return fault.kind != POOLER or node.number in self._pooled

    def _work(self, fault: Fault) -> Work:
        node = self._nodes[fault.node]
        work: dict[str, Work] = {
            KILL: node.kill,
            PAUSE: lambda: node.pause(fault.seconds),
            PARTITION: lambda: node.cut_off(fault.seconds),
            RESTART: lambda: self._database.restart(FAST),
            CRASH: lambda: self._database.restart(IMMEDIATE),
            POOLER: self._bouncer.restart,
        }
        return work[fault.kind]

    async def manage(self) -> None:
        """As a service manager does: start again what has ended by itself, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for node in self._nodes:
                busy = self._busy[node.number]
                if node.has_ended and not busy.locked():
                    self.ended[f"node {node.number} ended by itself"] += 1
                    async with busy:
                        await node.start()
