"""A person's word on its way: made a message, told once it is stored, and what follows for a reader."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from holdfast.core.contract import Message
from holdfast.core.errors import InvalidInput, TurnNotFound
from holdfast.core.events import MessageAccepted
from holdfast.host.contract import Accepted, Numbered
from holdfast.host.conversation import INTERRUPTED, Conversation
from holdfast.sessions import InboxMessage, SessionDB
from holdfast.sessions.contract import Mode


def accepted(conversation: Conversation, stored: InboxMessage, running: str | None) -> Accepted:
    """Tell of a message that is stored, and let it have its way; `running` is the turn it found running."""
    if stored.state == "waiting":
        conversation.stream.waiting += 1
        conversation.stream.publish(
            MessageAccepted(session_id=stored.session_id, inbox_id=stored.id, mode=stored.mode)
        )
    interrupted = stored.addressed_to or (running if stored.mode == "interrupt" else None)
    if interrupted is not None:
        conversation.interrupt(interrupted, INTERRUPTED)
    conversation.run_waiting()
    return Accepted(stored.id, stored.session_id, stored.mode, interrupted, stored.created)


async def batches_of(conversation: Conversation, after: int | None) -> AsyncGenerator[list[Numbered], None]:
    """What happens there after a number, as a reader hears it."""
    # Another process may run it: while somebody reads here, it is followed.
    if not conversation.is_served:
        conversation.poke()
    async with aclosing(conversation.stream.read_batches(after)) as batches:
        async for batch in batches:
            yield batch


def persons(text: str | Message) -> Message:
    """What a person says, as a message; refuses what can't be one."""
    message: Message = {"role": "user", "content": text} if isinstance(text, str) else text
    if message.get("role") != "user" or not message.get("content"):
        raise InvalidInput("a message is a user's and can't be empty")
    return message


def put(db: SessionDB, root_id: str, message: Message, mode: Mode, key: str | None) -> InboxMessage:
    """Let a message wait in its conversation; an interrupt is addressed to the turn that runs there."""
    addressed = None
    if mode == "interrupt":
        running = db.turns.running(db.live_end(root_id))
        addressed = running.id if running else None
    try:
        return db.inbox.put(root_id, message, mode=mode, addressed_to=addressed, key=key)
    except TurnNotFound:
        return db.inbox.put(root_id, message, mode=mode, key=key)
