"""`PartDelivery`: brings one message of a post to the platform, whatever happened to it before.

A part is on record as `sending` before the platform is called. What a crash or a broken connection left so,
the platform may have or not: then it is sent again with its key, or looked for, as the adapter's traits say.
Where the platform has neither, a placeholder is sent and edited into the text, so that only a placeholder
can be doubled.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeVar

from holdfast.core.contract import Clock
from holdfast.gateway.contract import Adapter, NotTaken, Outgoing, Route, SendRefused, SlowDown
from holdfast.gateway.post_text import PLACEHOLDER, to_outgoing
from holdfast.gateway.rate_budget import RateBudget, TurnKind, TurnReplaced
from holdfast.host.chat_ledger import ChatLedger
from holdfast.sessions.chat_posts import ChatPost, PartState, PostPart
from holdfast.sessions.contract import SECOND

T = TypeVar("T")


def part_key(post: ChatPost, part: PostPart) -> str:
    """The key under which the platform is asked to take a part once.

    A message that was deleted is sent anew with another key: platforms know the key of a deleted message, and
    would answer with that message.
    """
    return sha256(f"{post.key}/{part.number}/{part.tried}".encode()).hexdigest()[:24]


@dataclass(frozen=True, slots=True)
class PlatformCalls:
    """One account's adapter behind its rate budget."""

    adapter: Adapter
    budget: RateBudget

    async def send(self, route: Route, message: Outgoing, key: str) -> str:
        return await self._call(route, "send", lambda: self.adapter.send(route, message, key))

    async def send_preview(self, route: Route, message: Outgoing, key: str, about: str) -> str:
        """Begin to show a text that still grows; what others have to say goes before it."""
        return await self._call(route, "edit", lambda: self.adapter.send(route, message, key), about)

    async def edit(self, route: Route, message_id: str, message: Outgoing) -> None:
        """Put a text into a message for good; an edit of its preview that still waits is dropped."""
        await self._call(route, "send", lambda: self.adapter.edit(route, message_id, message), message_id)

    async def edit_preview(self, route: Route, message_id: str, message: Outgoing) -> None:
        """Show how far a text has come; `TurnReplaced` when a newer one came before this one could go."""
        await self._call(route, "edit", lambda: self.adapter.edit(route, message_id, message), message_id)

    async def delete(self, route: Route, message_id: str) -> None:
        await self._call(route, "send", lambda: self.adapter.delete(route, message_id), message_id)

    async def find_sent(self, route: Route, key: str) -> str | None:
        return await self._call(route, "send", lambda: self.adapter.find_sent(route, key))

    async def react(self, route: Route, message_id: str, emoji: str) -> None:
        """Put a sign on a person's message, after all that is to be said."""
        about = f"sign on {message_id}"
        await self._call(route, "edit", lambda: self.adapter.react(route, message_id, emoji), about)

    async def show_typing(self, route: Route) -> None:
        await self._call(route, "typing", lambda: self.adapter.show_typing(route))

    def withdraw(self, route: Route, about: str) -> None:
        """Drop what waits of a preview (its message's id, or the key of one to be sent) and "typing"."""
        self.budget.withdraw(route.place.chat, about)

    async def _call(
        self, route: Route, kind: TurnKind, call: Callable[[], Awaitable[T]], about: str = ""
    ) -> T:
        async with self.budget.turn(route.place.chat, kind, about, is_group=route.is_group):
            return await call()


class PartDelivery:
    """Delivers parts of posts and records each step."""

    def __init__(self, ledger: ChatLedger, calls: PlatformCalls, clock: Clock) -> None:
        self._ledger = ledger
        self._calls = calls
        self._traits = calls.adapter.traits
        self._clock = clock

    async def deliver(self, post: ChatPost, route: Route, part: PostPart) -> None:
        """Bring the part to its end. What the platform refuses or can't take now is raised."""
        message_id = part.message_id
        if part.state in ("new", "sending"):
            message_id = await self.place(post, route, part, to_outgoing(part.body))
            part = await self._now(post, part)
        if part.state == "standing":
            await self._finish(post, route, part, message_id)

    async def take_back(self, post: ChatPost, route: Route) -> None:
        """Remove a preview, so that its answer comes after what was shown in the meantime."""
        for part in await self._ledger(self._ledger.posts.parts, post.id):
            if part.state == "standing":
                await self._calls.delete(route, part.message_id)
                await self._move(post, part, ("standing", "new"))

    async def place(
        self, post: ChatPost, route: Route, part: PostPart, message: Outgoing, *, preview: bool = False
    ) -> str:
        """Have a message there for a part that is new, or whose sending nobody knows the end of.

        A `preview` stands there until the whole text is put into it.
        """
        is_new = part.state == "new"
        if is_new:
            await self._move(post, part, ("new", "sending"))
            part = await self._now(post, part)
        key = part_key(post, part)
        if not is_new and (found := await self._look(route, part, key)) is not None:
            await self._move(post, part, ("sending", "standing"), found)
            return found
        placeholder = self._traits.repeat == "placeholder" and message.file is None
        first = Outgoing(PLACEHOLDER) if placeholder else message
        try:
            if preview:
                message_id = await self._calls.send_preview(route, first, key, post.key)
            else:
                message_id = await self._calls.send(route, first, key)
        except (SlowDown, NotTaken, SendRefused, TurnReplaced):
            # Not taken this time; of an earlier time nothing is known.
            if is_new:
                await self._move(post, part, ("sending", "new"))
            raise
        # A repeated key gives the message that was sent first, maybe with an older text.
        unsure = preview or (self._traits.can_edit and not message.file and (placeholder or not is_new))
        await self._move(post, part, ("sending", "standing" if unsure else "sent"), message_id)
        return message_id

    async def _finish(self, post: ChatPost, route: Route, part: PostPart, message_id: str) -> None:
        try:
            await self._calls.edit(route, message_id, to_outgoing(part.body))
        except SendRefused:
            # The message is gone, e.g. a person deleted the preview: the text is sent as a new one.
            await self._move(post, part, ("standing", "new"))
            fresh = await self._now(post, part)
            message_id = await self.place(post, route, fresh, to_outgoing(part.body))
            if (await self._now(post, part)).state == "standing":
                await self._calls.edit(route, message_id, to_outgoing(part.body))
                await self._move(post, part, ("standing", "sent"), message_id)
            return
        await self._move(post, part, ("standing", "sent"), message_id)

    async def _look(self, route: Route, part: PostPart, key: str) -> str | None:
        """The message, if the platform shows that it has it; None when it is to be sent (again)."""
        traits = self._traits
        if traits.repeat == "placeholder":
            return None
        if traits.repeat == "key":
            age = self._clock.now() - (part.tried or 0) / SECOND
            # Below zero: the time was set back since, and nobody knows how old the key is.
            if not traits.key_seconds or 0 <= age < traits.key_seconds:
                return None
        return await self._calls.find_sent(route, key)

    async def _now(self, post: ChatPost, part: PostPart) -> PostPart:
        parts = await self._ledger(self._ledger.posts.parts, post.id)
        return next(each for each in parts if each.number == part.number)

    async def _move(
        self, post: ChatPost, part: PostPart, step: tuple[PartState, PartState], message_id: str = ""
    ) -> None:
        await self._ledger.under_lease(self._ledger.posts.move_part, post.id, part.number, step, message_id)
