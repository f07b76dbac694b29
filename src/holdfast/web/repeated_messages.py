"""A request with a key that an earlier message has: it is that request again, or another one and refused."""

from holdfast.core.contract import Message
from holdfast.core.messages import was_sent_as
from holdfast.host import Accepted, SessionHost
from holdfast.web.problems import ProblemRaised


async def refuse_another_message(host: SessionHost, accepted: Accepted, message: Message) -> None:
    """Raise 409 when the key of this message was used for one with other words: these would be lost."""
    if not accepted.is_repeat:
        return
    stored = await host.records.sent(accepted.inbox_id)
    checked, _ = await host.checked(message)
    if stored is not None and not was_sent_as(stored.message, checked.message):
        raise ProblemRaised(
            409,
            "KeyUsed",
            "this key belongs to another message. Nothing was stored.",
            "Send each message with a key of its own.",
        )
