"""Decides whether a turn that a crash cut off is resumed or closed, by the rule of `HostOptions.after_crash`.

A turn is resumed only if no call of a tool that changes things was open, so nothing is done twice. A turn
that ends its process each time is resumed a few times only.
"""

from collections.abc import Sequence

from holdfast.agent import Unfinished
from holdfast.core.events import INTERRUPTED
from holdfast.host.ask_records import shown
from holdfast.host.contract import AfterCrash
from holdfast.sessions import InboxMessage
from holdfast.sessions.contract import Ask

MOST_RESUMPTIONS = 3
"""How often a turn is resumed without asking a person."""
ENDED = "its process ended in the middle of this turn"


def reason_to_close(
    rule: AfterCrash, unfinished: Unfinished, waiting: Sequence[InboxMessage], asks: Sequence[Ask] = ()
) -> str | None:
    """Why the turn is closed, in words for its transcript; None when it is resumed.

    `asks` are those of the turn: a call that still waited for its approval has not begun.
    """
    if any(each.mode == "interrupt" and each.addressed_to == unfinished.turn_id for each in waiting):
        return INTERRUPTED
    if rule != "resume":
        return ENDED
    undecided = undecided_calls(asks)
    if begun := [name for call_id, name in unfinished.changing_calls if call_id not in undecided]:
        names = ", ".join(dict.fromkeys(begun))
        return f"its process ended while {names} ran, which may have taken effect; nothing was run again"
    if unfinished.resume_count >= MOST_RESUMPTIONS:
        return f"its process ended {unfinished.resume_count + 1} times in this turn; it was not tried again"
    return None


def undecided_calls(asks: Sequence[Ask]) -> set[str]:
    """The calls whose only question was never answered; a call that asked twice may have begun."""
    calls = [(asked.call_id, each.state) for each in asks if (asked := shown(each)) is not None]
    ids = [call_id for call_id, _ in calls]
    return {call_id for call_id, state in calls if state == "open" and ids.count(call_id) == 1}
