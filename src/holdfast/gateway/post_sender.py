"""`PostSender`: sends the posts of one account as they become due, in order for each room.

A post that the platform can't take now is tried again later; one that it will never take, or that failed too
often, is set aside for a person. `part_delivery.py` sends each message once.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Literal

from holdfast.core.error_text import error_text, error_words
from holdfast.core.errors import LeaseLost
from holdfast.gateway.contract import FileTooLarge, NotTaken, Place, Route, SendRefused, SlowDown, Unreachable
from holdfast.gateway.part_delivery import PartDelivery
from holdfast.gateway.post_bodies import PostBodies
from holdfast.host.chat_ledger import ChatLedger
from holdfast.sessions.chat_events import ChatRoom
from holdfast.sessions.chat_posts import ChatPost, NewPost

logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 30
FIRST_DELAY, LONGEST_DELAY = 1.0, 300.0
LOOK_SECONDS = 2.0
"""How often the ledger is read when nobody wakes the sender: another process may have put a post there."""
GRACE_SECONDS = 2.0
"""How long calls to the platform may take at the end."""
UNSENT = "A file could not be sent here"
MOST_ROOMS = 64
"""How many rooms are sent to at the same time."""


class PostSender:
    """Sends what is due.

    `lock_of` gives the lock of a turn's messages and says that its answer is on the way: a preview that is
    being edited is waited for, and is not edited after the answer.
    """

    def __init__(
        self,
        ledger: ChatLedger,
        bodies: PostBodies,
        parts: PartDelivery,
        lock_of: Callable[[ChatPost], asyncio.Lock],
        report_runs: Callable[[], Awaitable[None]],
    ) -> None:
        self._ledger = ledger
        self._bodies = bodies
        self._parts = parts
        self._lock_of = lock_of
        self._report_runs = report_runs
        self._woken = asyncio.Event()
        self._busy: dict[int, asyncio.Task[None]] = {}
        self._not_before: dict[int, float] = {}
        """By post, when it is tried again, by the loop's clock: the store's time may be set anew."""

    def wake(self) -> None:
        """Look now: something is due."""
        self._woken.set()

    async def run(self) -> None:
        """Send until cancelled. Raises `LeaseLost` when another process has taken the account."""
        try:
            while True:
                self._woken.clear()
                await self._report_runs()
                await self._start_due()
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._woken.wait()
        finally:
            await self._finish()

    async def _finish(self) -> None:
        """Let what is on its way arrive; what takes too long is found in the ledger at the next start."""
        if self._busy:
            _, late = await asyncio.wait(self._busy.values(), timeout=GRACE_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*self._busy.values(), return_exceptions=True)

    async def _start_due(self) -> None:
        for room_id, task in list(self._busy.items()):
            if task.done():
                del self._busy[room_id]
                task.result()
        for post in await self._ledger.of_account(self._ledger.posts.due):
            is_early = self._not_before.get(post.id, 0.0) > asyncio.get_running_loop().time()
            if is_early or post.room_id in self._busy or len(self._busy) >= MOST_ROOMS:
                continue
            self._not_before.pop(post.id, None)
            task = asyncio.create_task(self.send(post), name=f"chat post {post.id}")
            task.add_done_callback(lambda _: self.wake())
            self._busy[post.room_id] = task

    async def send(self, post: ChatPost) -> None:
        """Send one post, or record why not and when it is tried again."""
        room = await self._ledger(self._ledger.events.room, post.room_id)
        if room is None:
            await self._settle(post, "failed", "its chat is not on record any more")
            return
        async with self._lock_of(post):
            try:
                await self._send_parts(post, room)
            except SlowDown as limit:
                await self._defer(post, limit.seconds, error_words(limit), counted=False)
            except (SendRefused, FileTooLarge, FileNotFoundError) as refusal:
                await self._settle(post, "failed", error_words(refusal))
            except (NotTaken, Unreachable) as failure:
                await self._try_later(post, error_words(failure))
            except LeaseLost:
                raise
            except Exception as failure:
                logger.warning("chat.post_failed", exc_info=True, extra={"post": post.id})
                await self._try_later(post, error_text(failure))
            else:
                await self._settle(post, "sent")

    async def _send_parts(self, post: ChatPost, room: ChatRoom) -> None:
        bodies = await self._bodies.of(post)
        route = Route(Place(room.chat, room.thread), is_group=not room.is_direct)
        if post.kind == "answer" and await self._ledger(self._ledger.posts.is_overtaken, post):
            await self._parts.take_back(post, route)
        for part in await self._ledger.under_lease(self._ledger.posts.plan, post.id, bodies):
            # Only the first message answers the person's.
            reply_to = "" if part.number else post.reply_to
            await self._parts.deliver(post, replace(route, reply_to=reply_to), part)

    async def _try_later(self, post: ChatPost, error: str) -> None:
        if post.attempts + 1 >= MAX_ATTEMPTS:
            await self._settle(post, "failed", f"given up after {MAX_ATTEMPTS} attempts: {error}")
        else:
            delay = min(LONGEST_DELAY, FIRST_DELAY * 2**post.attempts)
            await self._defer(post, delay, error, counted=True)

    async def _defer(self, post: ChatPost, seconds: float, error: str, *, counted: bool) -> None:
        logger.info("chat.post_deferred", extra={"post": post.id, "seconds": seconds, "cause": error})
        await self._ledger.under_lease(self._ledger.posts.defer, post.id, seconds, error, counted=counted)
        loop = asyncio.get_running_loop()
        self._not_before[post.id] = loop.time() + seconds
        loop.call_later(seconds, self.wake)

    async def _settle(self, post: ChatPost, state: Literal["sent", "failed"], error: str = "") -> None:
        if state == "failed":
            logger.error("chat.post_undeliverable", extra={"post": post.id, "cause": error})
        await self._ledger.under_lease(self._ledger.posts.settle, post.id, state, error)
        if state == "sent":
            with suppress(OSError):
                await self._bodies.sent(post)
        elif post.kind == "file":
            notice = NewPost(f"unsent:{post.key}", post.room_id, {"text": f"⚠️ {UNSENT}: {error}"})
            await self._ledger(self._ledger.posts.put, notice)
