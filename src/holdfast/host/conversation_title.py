"""`ConversationTitle`: gives a conversation its title after a turn, in the background; nobody waits for it.

It begins when a turn is stored, and is cut off when the next one begins: a model on this machine answers one
request at a time. What was cut off, also by a crash, is tried again after the next turn. What a person
decided about the title stays: the store's own statement sees to that (`name_conversation`).
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from holdfast.agent.title import TitleMaker
from holdfast.core.contract import Message
from holdfast.core.errors import HoldfastError
from holdfast.process import DaemonPool, off_loop
from holdfast.sessions import SessionDB
from holdfast.sessions.conversation_list import name_conversation
from holdfast.sessions.usage import record_usage

logger = logging.getLogger(__name__)

TITLED_SOURCES = frozenset({"cli", "web", "acp"})
"""Where people talk. Requests of programs, schedules, subagents and chats are listed by other names."""
TRIES = 3
"""How often a model that gives no usable title is asked, in one process."""
SECONDS = 60.0


class ConversationTitle:
    """The title of one conversation. On the host's loop."""

    def __init__(
        self, maker: TitleMaker, db: SessionDB, pool: DaemonPool, renamed: Callable[[], None]
    ) -> None:
        """`renamed` is called once the conversation has a title."""
        self._maker = maker
        self._db = db
        self._pool = pool
        self._renamed = renamed
        self._tries = TRIES
        self._task: asyncio.Task[None] | None = None

    def turn_completed(self, session_id: str, messages: Sequence[Message]) -> None:
        """A turn is stored; `messages` is the conversation as it is now."""
        if self._tries and self._maker.is_able and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._make(session_id, list(messages[:8])), name="title")

    def turn_began(self) -> None:
        """Make room for a turn."""
        if self._task is not None:
            self._task.cancel()

    async def close(self, seconds: float) -> None:
        """Stop, and wait so long at most; a title that is not made by now is made after a later turn."""
        self._tries = 0
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=seconds)

    async def _make(self, session_id: str, messages: list[Message]) -> None:
        try:
            if not await off_loop(self._pool, self._wants_title, session_id):
                self._tries = 0
                return
            async with asyncio.timeout(SECONDS):
                made = await self._maker.title(messages)
            self._tries -= 1
            if made is None:
                return
            if not made.text:
                await self._db.run(self._pool, record_usage, session_id, [made.usage])
                return
            self._tries = 0
            if await self._db.run(self._pool, name_conversation, session_id, made.text, made.usage):
                self._renamed()
        except (HoldfastError, TimeoutError) as cause:
            logger.info("title.not_made", extra={"session": session_id, "cause": repr(cause)})
        except Exception:
            logger.exception("title.failed", extra={"session": session_id})

    def _wants_title(self, session_id: str) -> bool:
        first = self._db.sessions.conversation(session_id)[0]
        talked = first.relation in (None, "branch") and first.source in TITLED_SOURCES
        return talked and self._db.conversations.is_untitled(session_id)
