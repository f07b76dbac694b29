"""Finds a conversation by its id, the beginning or end of its id, or its number in the list."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from holdfast.core.clean_text import one_line
from holdfast.core.errors import InvalidInput
from holdfast.sessions import SessionDB
from holdfast.sessions.chat_places import ChatPlace
from holdfast.sessions.contract import API_SOURCE, SECOND
from holdfast.sessions.conversation_list import ListedConversation

if TYPE_CHECKING:
    from holdfast.host import SessionHost

LOOKED_AT = 1_000
FEWEST_DIGITS = 4
"""A number with fewer digits is one of the list, never a part of an id."""
SHORT = 8
"""How many of an id's last characters are shown; the first ones only encode the time."""


def find_in_store(db: SessionDB, wanted: str, *, archived: bool = False) -> str:
    """The id of the conversation that `wanted` names; any session's id is accepted.

    A number counts in the list that is shown by default, or with `archived` in the list of archived ones.
    """
    if db.get_session(wanted) is not None:
        return wanted
    listed = [each for api in (False, True) for each in db.conversations.list(api=api, limit=LOOKED_AT)]
    return find_in_list(wanted, listed, archived=archived)


async def find_on_host(host: "SessionHost", wanted: str) -> str:
    """The same, through a running host."""
    listed = [
        each
        for api in (False, True)
        for each in await host.records.sessions(api=api, archived=None, limit=LOOKED_AT)
    ]
    return find_in_list(wanted, listed)


def find_in_list(wanted: str, listed: Sequence[ListedConversation], *, archived: bool = False) -> str:
    """The id that matches; `InvalidInput` when none or several do.

    A number counts as the list shows them: without those that clients of the API began, and either those
    that are archived or the others.
    """
    numbered = [e.session.id for e in listed if e.session.source != API_SOURCE and e.archived == archived]
    is_number = wanted.isdecimal() and len(wanted) < FEWEST_DIGITS
    if not listed or (is_number and not numbered):
        missed = "" if wanted.isdecimal() else f"there is no conversation {wanted!r}: "
        raise InvalidInput(f"{missed}there are no conversations yet; `holdfast chat` begins one")
    ids = [each.session.id for each in listed]
    if wanted in ids:
        return wanted
    if wanted.isdecimal() and 1 <= int(wanted) <= len(numbered):
        return numbered[int(wanted) - 1]
    folded = wanted.lower()
    fitting = [each for each in ids if each.lower().startswith(folded) or each.lower().endswith(folded)]
    # A short number that is not in the list is a slip, not the end of an id.
    if is_number or not fitting:
        raise InvalidInput(f"there is no conversation {wanted!r}; `holdfast sessions` lists them")
    if len(fitting) == 1:
        return fitting[0]
    raise InvalidInput(f"{wanted!r} fits {len(fitting)} conversations; give more of the id")


def day(moment: int) -> str:
    """A time of the store in the local time zone."""
    return datetime.fromtimestamp(moment / SECOND, UTC).astimezone().strftime("%Y-%m-%d %H:%M")


def lives_in(places: Iterable[ChatPlace]) -> str:
    """The chat accounts in which a conversation goes on; empty for one that lives in no chat."""
    return ",".join(dict.fromkeys(each.account for each in places))


def named(each: ListedConversation) -> str:
    """What a conversation is called and, of a branch, what it left."""
    about = each.label or "(nothing was said)"
    if each.branch_of is None:
        return about
    return f"{about} (branch of: {each.branch_of})" if each.branch_of != about else f"{about} (branch)"


def listed_line(number: int | None, each: ListedConversation, width: int, where: str = "") -> str:
    """The line of one conversation in a list; `where` is the chat account that it lives in."""
    count = "" if number is None else str(number)
    head = f"{count:>3}  …{each.session.id[-SHORT:]}  {day(each.last_active)}  {each.messages:>4} msg  "
    about = named(each)
    if each.session.scope:
        about = f"[{each.session.scope}] {about}"
    # The scope of a person or a group on a chat platform begins with the account.
    if where and not each.session.scope.startswith(f"{where}/"):
        about = f"[{where}] {about}"
    if each.pinned:
        about = f"[pinned] {about}"
    if width < len(head) + 16:
        head = f"{count:>3} …{each.session.id[-SHORT:]} "
    return head + one_line(about, max(10, width - len(head)))
