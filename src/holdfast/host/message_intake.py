"""What happens right after a message is stored: readers are told, and the conversation's runner is called."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager

from holdfast.core.events import INTERRUPTED, MessageAccepted
from holdfast.host.contract import Accepted, Numbered
from holdfast.host.conversation import Conversation
from holdfast.host.event_stream import EventStream
from holdfast.sessions import InboxMessage


def announce_and_run(conversation: Conversation, stored: InboxMessage, running: str | None) -> Accepted:
    """Announce a stored message and let it run; `running` is the turn that ran when it came."""
    if stored.state == "waiting":
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
