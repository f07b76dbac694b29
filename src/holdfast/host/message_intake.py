"""`MessageIntake`: stores a message, tells the conversation's readers, and calls its runner.

`reading` and `read_event_batches` are the way back: what happens in a conversation, for one reader.
"""

from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager, suppress

from holdfast.core.content import Checked
from holdfast.core.errors import HoldfastError, SessionNotFound
from holdfast.core.events import INTERRUPTED, MessageAccepted
from holdfast.host.contract import Accepted, Beginning, Numbered
from holdfast.host.conversation import Conversation
from holdfast.host.conversations import Conversations
from holdfast.host.event_stream import EventStream
from holdfast.host.runner_store import begin
from holdfast.host.store_calls import StoreCalls
from holdfast.sessions import InboxMessage, SessionDB
from holdfast.sessions.contract import Mode, SessionStart
from holdfast.sessions.conversation_operations import send_message


class MessageIntake:
    """How messages get into the inbox. On the host's loop."""

    def __init__(self, db: SessionDB, call: StoreCalls, conversations: Conversations) -> None:
        self._db = db
        self._call = call
        self._conversations = conversations

    async def send(
        self,
        session_id: str,
        message: Checked,
        mode: Mode,
        key: str | None,
        *,
        create: bool,
        scope: str | None,
    ) -> Accepted:
        """Store a message and call the runner; see `SessionHost.send`."""
        conversation = await self._conversations.opened_or_open(session_id, create=create, scope=scope)
        # Taken down before it is stored: what runs later may be this very message's turn.
        running = conversation.running_turn
        try:
            stored = await self._call.run(send_message, conversation.root_id, message, mode, key)
        except SessionNotFound:
            # Deleted through another process.
            self._conversations.forget(conversation)
            conversation = await self._conversations.open(session_id, create=create, scope=scope)
            running = None
            stored = await self._call.run(send_message, conversation.root_id, message, mode, key)
        if conversation.is_deleted:
            # It went while the message was on its way, and began again elsewhere: that one is called.
            with suppress(HoldfastError):  # deleted once more, and the message with it; or the host closes
                conversation = await self._conversations.open(session_id)
        return _announced(conversation, stored, running)

    async def begin(
        self, session: SessionStart, message: Checked, how: Beginning, before: Conversation | None
    ) -> tuple[Accepted, Conversation]:
        """Store a session with its first message; `before` is the conversation that was left for it."""
        stored, held = await begin(self._call, self._db, session, message, how, self._conversations.holder)
        if stored.session_id != session.id:
            conversation = await self._conversations.open(stored.session_id)
        else:
            conversation = self._conversations.begun(session.id, session.scope, before)
            conversation.choice = session.choice
            if held[0] is not None:
                conversation.held(held)
        return _announced(conversation, stored, None), conversation


def _announced(conversation: Conversation, stored: InboxMessage, running: str | None) -> Accepted:
    """Announce a stored message and let it run; `running` is the turn that ran when it came."""
    if stored.state == "waiting" and not stored.is_repeat:
        conversation.stream.waiting += 1
        conversation.stream.publish(
            MessageAccepted(session_id=stored.session_id, inbox_id=stored.id, mode=stored.mode)
        )
    interrupted = stored.addressed_to
    # The same message may be sent again after a turn took it: it interrupts neither that turn nor later ones.
    if interrupted is None and stored.mode == "interrupt" and stored.state == "waiting":
        interrupted = running
    if interrupted is not None:
        conversation.interrupt(interrupted, INTERRUPTED)
    conversation.last_accepted = max(stored.id, conversation.last_accepted)
    conversation.run_waiting()
    return Accepted(stored.id, stored.session_id, stored.mode, interrupted, stored.created, stored.is_repeat)


async def read_event_batches(
    conversation: Conversation, after: int | None
) -> AsyncGenerator[list[Numbered], None]:
    """What happens in a conversation after a number, in batches."""
    with reading(conversation) as stream:
        while batch := await stream.next_batch(after):
            after = batch[-1].number
            yield batch


@contextmanager
def reading(conversation: Conversation) -> Iterator[EventStream]:
    """The stream of a conversation. While somebody reads it here, a turn in another process is followed."""
    if not conversation.is_served:
        conversation.wake()
    with conversation.stream.reader():
        yield conversation.stream
