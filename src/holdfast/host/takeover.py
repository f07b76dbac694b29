"""`Takeover`: finds what dead processes left of conversations, and has this process go on with it.

For hosts that recover by themselves (`HostOptions.after_crash`). One cheap look at the store, now and again,
finds the conversations with an open turn or a waiting message that no living process holds. Several hosts may
find the same one: its lease decides which of them goes on. Each begins with others, so that all share what a
node left. A store that tells of changes by itself makes it look sooner.
"""

import asyncio
import logging
import zlib
from contextlib import suppress
from functools import partial

from holdfast.core.errors import HoldfastError, StoreClosed
from holdfast.host.contract import HostParts
from holdfast.host.conversation import HEAD_START
from holdfast.host.conversations import Conversations
from holdfast.host.holders import ExpiredLeases, living_holder
from holdfast.host.store_watcher import wake
from holdfast.process import is_provably_gone, off_loop

logger = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
LOOKS_PER_LEASE = 4
LONGEST_PAUSE = 60.0
"""How long a conversation is left alone in which again and again nothing comes of it."""


class Takeover:
    """Looks for the whole store. Everything on the host's loop."""

    def __init__(self, parts: HostParts, conversations: Conversations) -> None:
        self._parts = parts
        self._conversations = conversations
        self._expired = ExpiredLeases(parts.db, parts.clock)
        self._looked = False
        self._seen: dict[str, float] = {}  # conversations that nobody holds just now, and since when
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

    async def _rest(self, woken: asyncio.Event) -> None:
        longest = min(LOOK_SECONDS, self._parts.db.lease_seconds / LOOKS_PER_LEASE)
        if self._seen:
            longest = min(longest, HEAD_START)
        shortest = min(longest, self._parts.options.poll_seconds)
        await asyncio.sleep(shortest)
        with suppress(TimeoutError):
            async with asyncio.timeout(longest - shortest):
                await woken.wait()
        woken.clear()

    async def look(self) -> None:
        """Look once; the conversations that are found go on in the background."""
        self._expired.note_look()
        certain, likely = await off_loop(self._parts.pools.store, self._left_behind)
        # A message that another process has accepted this moment is not left behind; a little later it is.
        now = self._parts.clock.monotonic()
        since = dict.fromkeys(likely, now) | {root: self._seen[root] for root in likely & self._seen.keys()}
        late = {root for root in likely if now - since[root] >= HEAD_START} if self._looked else likely
        self._looked, self._seen = True, {root: since[root] for root in likely - late}
        found = certain | late
        self._tries = {root: self._tries[root] for root in found & self._tries.keys()}
        for root_id in sorted(found, key=self._place):
            if self._is_due(root_id):
                await self._recover(root_id)

    def _place(self, root_id: str) -> int:
        """The order in which this process takes conversations over, which is another one in each process."""
        return zlib.crc32(f"{self._conversations.holder} {root_id}".encode())

    def _left_behind(self) -> tuple[set[str], set[str]]:
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
