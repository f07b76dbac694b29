"""`AgentCache`: agents kept warm between turns, with a limit, idle expiry and a bound on what they hold.

Agents to evict are chosen on the event loop and committed to memory on a thread, so no turn waits for this.
An agent whose memory could not be committed stays, for another try.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from holdfast.agent import Pools, SessionAgent
from holdfast.agent.scope_policy import AgentScope
from holdfast.core.contract import Clock
from holdfast.core.errors import HoldfastError
from holdfast.host.contract import HostOptions
from holdfast.memory import SessionLifecycle
from holdfast.process import off_loop

logger = logging.getLogger(__name__)

AT_ONCE = 8
"""How many commits run side by side, at most: so many that agents leave as fast as short chats come. With few
threads it is a quarter of them, so that a slow provider leaves turns the rest."""
MOST_BEYOND = 64
"""With so many agents more than may stay warm, a sweep does not wait for its time."""
SHORTEST_PAUSE = 1.0
"""Seconds between two sweeps, at least."""


@dataclass(slots=True, eq=False)
class WarmAgent:
    """One warm agent. In use: its conversation is served; leaving: it is being evicted."""

    agent: SessionAgent
    used: float
    in_use: bool
    leaving: bool = False


class AgentCache:
    """The warm agents of a host, by conversation."""

    def __init__(self, lifecycle: SessionLifecycle, pools: Pools, clock: Clock, options: HostOptions) -> None:
        self._lifecycle = lifecycle
        self._pools = pools
        self._clock = clock
        self._options = options
        self._kept: dict[str, WarmAgent] = {}
        self._crowded = asyncio.Event()
        self._stuck = False
        at_once = max(1, min(AT_ONCE, pools.work.stats().workers // 4))
        self.boundaries = asyncio.Semaphore(at_once)
        """Held by each commit to memory: few at a time, so that turns find threads meanwhile."""
        # Of several places one is kept free of sweeps: an eviction that somebody waits for is not queued.
        self._sweeping = asyncio.Semaphore(max(1, at_once - 1))

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, root_id: str) -> bool:
        return root_id in self._kept

    def get(self, root_id: str) -> SessionAgent | None:
        kept = self._kept.get(root_id)
        return kept.agent if kept else None

    def take(self, root_id: str, make: Callable[[], SessionAgent], scope: AgentScope) -> SessionAgent:
        """The conversation's agent, made if there is none for this scope; in use until it is given back.

        One that was made when the scope's policy was another is not used any more.
        """
        kept = self._kept.get(root_id)
        if kept is None or kept.agent.scope != scope:
            kept = self._kept[root_id] = WarmAgent(make(), self._clock.monotonic(), in_use=True)
        kept.in_use = True
        return kept.agent

    def give_back(self, root_id: str, agent: SessionAgent | None) -> None:
        """It is not in use any more; does nothing when another one has taken its place."""
        kept = self._kept.get(root_id)
        if kept is not None and kept.agent is agent:
            kept.in_use = False
            kept.used = self._clock.monotonic()
            if len(self._kept) > self._options.agents + MOST_BEYOND:
                self._crowded.set()

    def drop(self, root_id: str) -> None:
        """Let go of a deleted conversation's agent; there is nothing left to commit."""
        self._kept.pop(root_id, None)

    def victims(self) -> list[str]:
        """The agents to evict: those unused for long, then the least recently used beyond the limits."""
        now = self._clock.monotonic()
        idle = sorted(
            (root for root, kept in self._kept.items() if not kept.in_use and not kept.leaving),
            key=lambda root: self._kept[root].used,
        )
        chosen = [root for root in idle if now - self._kept[root].used >= self._options.idle_seconds]
        held = sum(kept.agent.context_tokens for kept in self._kept.values())
        left = len(self._kept) - len(chosen)
        held -= sum(self._kept[root].agent.context_tokens for root in chosen)
        for root in idle[len(chosen) :]:
            if left <= self._options.agents and held <= self._options.context_tokens:
                break
            chosen.append(root)
            left -= 1
            held -= self._kept[root].agent.context_tokens
        return chosen

    async def until_due(self) -> None:
        """Wait for the next sweep: for its time, or only until far too many agents are kept.

        When the last sweep could let nobody go (their memory does not answer), only for its time.
        """
        seconds = self._options.sweep_seconds
        pause = seconds if self._stuck else min(seconds, SHORTEST_PAUSE)
        await asyncio.sleep(pause)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds - pause):
                await self._crowded.wait()

    async def sweep(self) -> None:
        """Evict the victims; the memory of each is committed first."""
        self._crowded.clear()
        leaving = [(root, self._kept[root]) for root in self.victims()]
        for _, kept in leaving:
            kept.leaving = True
        lined_up = (self._in_line(root, kept, kept.used) for root, kept in leaving)
        done = await asyncio.gather(*lined_up, return_exceptions=True)
        self._stuck = bool(leaving) and all(self._kept.get(root) is kept for root, kept in leaving)
        for each in done:
            if isinstance(each, Exception):
                logger.error("host.eviction_failed", exc_info=each)

    async def _in_line(self, root_id: str, kept: WarmAgent, used: float) -> None:
        try:
            async with self._sweeping:
                await self._evict(root_id, kept, used)
        finally:
            kept.leaving = False

    async def evict(self, root_id: str) -> bool:
        """Evict one agent now, unless it is in use; True when it is gone."""
        kept = self._kept.get(root_id)
        if kept is None:
            return True
        if kept.in_use or kept.leaving:
            return False
        kept.leaving = True
        return await self._evict(root_id, kept, kept.used)

    async def _evict(self, root_id: str, kept: WarmAgent, used: float) -> bool:
        """Commit it and let it go, unless somebody uses it since."""
        try:
            async with self.boundaries:
                if kept.in_use or kept.used != used:
                    return False  # somebody spoke there while it stood in line
                gone = await off_loop(
                    self._pools.work, self._lifecycle.evict_agent, kept.agent.session_id, kept.agent
                )
        except HoldfastError:
            logger.exception("host.eviction_failed", extra={"session": kept.agent.session_id})
            gone = False
        finally:
            kept.leaving = False
        # A turn may have begun meanwhile: then it stays, committed up to there.
        if not gone or kept.in_use:
            return False
        if self._kept.get(root_id) is kept:
            del self._kept[root_id]
        return True
