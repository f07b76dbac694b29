"""`Takeover`: finds what dead processes left of conversations, and has this process go on with it.

For hosts that recover by themselves (`HostOptions.after_crash`). One cheap look at the store, now and again,
finds the conversations with an open turn or a waiting message that no living process holds. Several hosts
share what is found (`takeover_shares.py`): each takes its own share at once, and what is another's only when
that one has left it. Its lease decides which of them goes on with a conversation. A store that tells of
changes by itself makes them look sooner.
"""

import asyncio
import logging
from contextlib import suppress
from functools import partial

from holdfast.core.errors import HoldfastError, StoreClosed
from holdfast.host.contract import HostParts
from holdfast.host.conversation import HEAD_START
from holdfast.host.conversations import Conversations
from holdfast.host.holders import ExpiredLeases, living_holder
from holdfast.host.store_watcher import wake
from holdfast.host.takeover_shares import TakeoverShares
from holdfast.process import is_provably_gone, off_loop

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
LOOKS_PER_LEASE = 4
OTHERS_FIRST = 1.5
"""How long a conversation in another host's share is left to that host.

It is longer than the time between two of that host's looks.
"""
LEAVE_SECONDS = 0.5
LONGEST_PAUSE = 60.0
"""How long a conversation is left alone in which again and again nothing comes of it."""


class Takeover:
    """Looks for the whole store. Everything on the host's loop."""

    def __init__(self, parts: HostParts, conversations: Conversations) -> None:
        self._parts = parts
        self._conversations = conversations
        self._expired = ExpiredLeases(parts.db, parts.clock)
        self._shares = TakeoverShares(parts.db, conversations.holder)
        self._looked = False
        self._due_at: dict[str, float] = {}  # conversations that are left to others until then
        self._tries: dict[str, tuple[float, float]] = {}  # the last pause, and when it is over

    async def watch(self) -> None:
        """Look now and again, and soon after something was stored elsewhere."""
        woken = asyncio.Event()
        stop = self._parts.db.notifications.subscribe(partial(wake, asyncio.get_running_loop(), woken))
        try:
            while True:
                await self._rest(woken)
                try:
                    await self.look()
                except StoreClosed:
                    return
                except Exception:
                    logger.exception("host.takeover_failed")
        finally:
            stop()

    async def leave(self) -> None:
        """Leave what this process would take over to others from now on: it is ending."""
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                await off_loop(self._parts.pools.store, self._shares.leave)
        except (HoldfastError, TimeoutError):
            logger.warning("host.takeover_not_left", exc_info=True)

    async def _rest(self, woken: asyncio.Event) -> None:
        longest = min(LOOK_SECONDS, self._parts.db.lease_seconds / LOOKS_PER_LEASE)
        if self._due_at:
            next_due = min(self._due_at.values()) - self._parts.clock.monotonic()
            longest = max(0.0, min(longest, next_due))
        shortest = min(longest, self._parts.options.poll_seconds)
        await asyncio.sleep(shortest)
        with suppress(TimeoutError):
            async with asyncio.timeout(longest - shortest):
                await woken.wait()
        woken.clear()

    async def look(self) -> None:
        """Look once; the conversations that are found go on in the background."""
        self._expired.note_look()
        found = await off_loop(self._parts.pools.store, self._left_behind)
        self._looked = True
        now = self._parts.clock.monotonic()
        due_at = {root: self._due_at.get(root, now + head_start) for root, head_start in found.items()}
        self._due_at = {root: at for root, at in due_at.items() if at > now}
        self._tries = {root: self._tries[root] for root in found.keys() & self._tries.keys()}
        for root_id in due_at.keys() - self._due_at.keys():
            if self._is_due(root_id):
                await self._recover(root_id)

    def _left_behind(self) -> dict[str, float]:
        """The conversations that lost their process, each with the time for which it is left to others."""
        self._shares.join()
        certain, likely = self._without_process()
        found = certain | likely
        own = self._shares.own(found)
        # A message that another process has accepted this moment is not left behind; a little later it is.
        accepted = HEAD_START if self._looked else 0.0
        return {
            root: max(accepted if root in likely else 0.0, 0.0 if root in own else OTHERS_FIRST)
            for root in found
        }

    def _without_process(self) -> tuple[set[str], set[str]]:
        """Conversations that lost their process for certain, and those that nobody holds just now."""
        db = self._parts.db
        certain: set[str] = set()
        likely: set[str] = set()
        gone: dict[str, bool] = {}
        for each in db.statuses.busy_elsewhere(self._conversations.holder):
            if each.holder is None:
                if self._is_free(each.root_id):
                    (certain if each.has_open_turn else likely).add(each.root_id)
                continue
            if each.holder not in gone:
                gone[each.holder] = is_provably_gone(each.holder)
            if gone[each.holder] and self._is_free(each.root_id):
                certain.add(each.root_id)
        return certain, likely

    def _is_free(self, root_id: str) -> bool:
        """Whether nobody alive holds the conversation, or may be about to take it up again."""
        return living_holder(self._parts.db, root_id) is None and self._expired.holder_of(root_id) is None

    def _is_due(self, root_id: str) -> bool:
        """At once, then after pauses that grow while nothing comes of it."""
        now = self._parts.clock.monotonic()
        pause, until = self._tries.get(root_id, (LOOK_SECONDS / 2, now))
        if now < until:
            return False
        self._tries[root_id] = min(2 * pause, LONGEST_PAUSE), now + min(2 * pause, LONGEST_PAUSE)
        return True

    async def _recover(self, root_id: str) -> None:
        try:
            conversation = await self._conversations.open(root_id)
        except HoldfastError:
            logger.warning("host.takeover_failed", extra={"session": root_id}, exc_info=True)
            return
        logger.info("host.takes_over", extra={"session": root_id})
        conversation.recover()
