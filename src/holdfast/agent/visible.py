"""What models see of stored messages, one by one: without what was superseded or set aside.

`Transcript` gives the same as one valid list, in which messages are joined. A compaction works with single
messages, because a stored one that it keeps unchanged is carried over as it is.
"""

from collections.abc import Sequence
from functools import reduce
from itertools import groupby

from holdfast.agent.message_repair import repaired
from holdfast.agent.refused_content import Omission, digest, omission_of, spans_of
from holdfast.agent.transcript import joined, superseded
from holdfast.core.contract import Message


def visible(messages: Sequence[Message]) -> list[tuple[int, Message]]:
    """Each message that models see, as they see it, with its index among the given ones."""
    places: list[int] = []
    seen: list[Message] = []
    for place, message in enumerate(messages):
        if (omission := omission_of(message)) is not None:
            seen = _one_by_one(omission, seen).applied(seen)
        if not superseded(message):
            places.append(place)
            seen.append(repaired(message))
    return list(zip(places, seen, strict=True))


def _one_by_one(omission: Omission, messages: Sequence[Message]) -> Omission:
    """The omission with the digests of messages that it knows by what they are joined to."""
    more: set[str] = set()
    earlier = [messages[place] for place in spans_of(messages)["earlier"]]
    for role, group in groupby(earlier, key=lambda message: message["role"]):
        run = list(group)
        if role != "tool" and len(run) > 1 and digest(reduce(joined, run).get("content")) in omission.digests:
            more.update(digest(each.get("content")) for each in run)
    return Omission(omission.digests | more, omission.pictures, summary=omission.summary)
