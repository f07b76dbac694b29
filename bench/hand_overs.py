"""How soon a conversation goes on at another server when the one that runs it is told to stop."""

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol

from bench.soak.servers import Server
from holdfast.sessions import SessionDB

LOOK_SECONDS = 0.02
PATIENCE = 20.0
GOAL = 1.0


class Follower(Protocol):
    """Whoever reads a conversation."""

    session: str
    news: list[tuple[float, Server]]
    """When something new was told, and at which server."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """A conversation that a server ran when it was told to stop."""

    follower: Follower
    server: Server
    told: float
    held: float
    """When another server held it."""

    def until_held(self) -> float:
        return self.held - self.told

    def until_shown(self) -> float:
        """Until its reader was told something new at another server."""
        news = (at for at, server in self.follower.news if at >= self.held and server is not self.server)
        return next(news, math.inf) - self.told


async def running_at(db: SessionDB, server: Server, followers: Sequence[Follower]) -> list[Follower]:
    """Those whose conversation this server runs."""
    return [each for each in followers if str(server.pid) in await _holder(db, each)]


async def watch_hand_overs(db: SessionDB, server: Server, ran: Sequence[Follower]) -> list[HandOver]:
    """Called when the server is told to stop; returns when others run what it ran."""
    told, old = time.monotonic(), str(server.pid)
    moved, waiting = list[HandOver](), list(ran)
    while waiting and time.monotonic() - told < PATIENCE:
        await asyncio.sleep(LOOK_SECONDS)
        for each in list(waiting):
            holder = await _holder(db, each)
            if holder and old not in holder:
                moved.append(HandOver(each, server, told, time.monotonic()))
                waiting.remove(each)
    return moved + [HandOver(each, server, told, math.inf) for each in waiting]


async def _holder(db: SessionDB, follower: Follower) -> list[str]:
    """The parts of the name of the process that runs a conversation, its id among them; empty for nobody."""
    name = await asyncio.to_thread(db.session_holder, follower.session)
    return name.split(":") if name else []


def hand_over_times(moved: Sequence[HandOver]) -> dict[str, Any]:
    """How long it took until another server went on."""
    found: dict[str, Any] = {"conversations that a server ran when it was told to stop": len(moved)}
    for what, times in (
        ("from SIGTERM until another server holds it", sorted(each.until_held() for each in moved)),
        ("from SIGTERM to the first event at another", sorted(each.until_shown() for each in moved)),
    ):
        if times:
            verdict = "met" if median(times) < GOAL else "missed"
            found[f"{what}: median, longest"] = (
                f"{median(times):.2f} s, {times[-1]:.2f} s (goal: median < {GOAL:g} s, {verdict})"
            )
    return found
