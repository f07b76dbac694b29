"""`Presses`: what the press of a button means for the question that it belongs to.

A button stands for a post, not for one asking of its question: when a turn goes on after a restart and asks
again, the same button answers. A press counts once; one that comes too late says so.
"""

from holdfast.core.contract import Clock
from holdfast.core.errors import HoldfastError
from holdfast.gateway.contract import Adapter, ChatPlatformError, Incoming
from holdfast.gateway.post_text import DECISIONS, ask_options, pressed
from holdfast.host import SessionHost
from holdfast.host.chat_ledger import ChatLedger
from holdfast.sessions.chat_events import ChatEvent
from holdfast.sessions.chat_people import Role
from holdfast.sessions.chat_posts import ChatPost

CLOSED = "This question is closed already."
NOT_YOURS = "Only people with the role owner or user may answer this."
ASKED_AGAIN_SECONDS = 1.0
"""How long to wait for a turn that goes on after a restart to ask again."""
PATIENCE_SECONDS = 120.0


class Presses:
    """Answers the questions of one account by buttons."""

    def __init__(self, host: SessionHost, ledger: ChatLedger, adapter: Adapter, clock: Clock) -> None:
        self._host = host
        self._ledger = ledger
        self._adapter = adapter
        self._clock = clock
        self._waiting: dict[int, float] = {}
        """By event, since when a press waits for its question, by the clock that only goes on."""

    async def answer(self, event: ChatEvent, press: Incoming, role: Role, scope: str) -> float:
        """Take a press; returns how long to wait before it is looked at again, 0 when it is done."""
        chosen = pressed(press.text)
        post = None if chosen is None else await self._ledger(self._ledger.posts.get, chosen[0])
        if chosen is None or post is None or post.kind != "ask" or post.room_id != event.room_id:
            return await self._done(event, press, "unknown button", CLOSED)
        if role not in ("owner", "user"):
            return await self._done(event, press, "a guest's press", NOT_YOURS)
        options = ask_options(post.body)
        if chosen[1] >= len(options) or post.session_id is None:
            return await self._done(event, press, "unknown button", CLOSED)
        if await self._ledger(self._host.chats.scope_of, post.session_id) not in (None, scope):
            return await self._done(event, press, "a button of another's conversation", CLOSED)
        word = options[chosen[1]]
        if await self._is_open(post):
            counted = await self._host.answer(
                post.session_id, str(post.body.get("ask_id")), word, key=event.key
            )
            return await self._done(event, press, word, DECISIONS.get(word, word) if counted else CLOSED)
        now = self._clock.monotonic()
        waited = now - self._waiting.setdefault(event.id, now)
        if waited < PATIENCE_SECONDS and await self._may_ask_again(post):
            return ASKED_AGAIN_SECONDS
        return await self._done(event, press, "stale", CLOSED)

    async def _is_open(self, post: ChatPost) -> bool:
        try:
            asks = await self._host.overview.asks(post.session_id or "")
        except HoldfastError:
            return False
        return any(each.ask_id == post.body.get("ask_id") for each in asks)

    async def _may_ask_again(self, post: ChatPost) -> bool:
        """Whether the turn has not ended: after a restart it goes on and asks again."""
        return post.turn_id is not None and await self._host.records.turn_end(post.turn_id) is None

    async def _done(self, event: ChatEvent, press: Incoming, note: str, said: str) -> float:
        self._waiting.pop(event.id, None)
        await self._ledger.under_lease(self._ledger.events.settle, event.id, "done", note=note)
        try:
            await self._adapter.confirm_press(press, said)
        except ChatPlatformError:
            # The person sees the answer, or the question as it stands, in the chat itself.
            return 0.0
        return 0.0
