"""Finds the conversation a person means: by its id, the beginning or end of it, or its place in the list."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from holdfast.cli.clean_text import one_line
from holdfast.core.errors import InvalidInput
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import SECOND
from holdfast.sessions.listing import Listed

if TYPE_CHECKING:
    from holdfast.host import Host

LOOKED_AT = 1_000
SHORT = 8
"""How many of an id's last characters lists show; the first ones are only the time."""


def found(db: SessionDB, wanted: str, *, archived: bool = False) -> str:
    """The conversation meant; an id of any session is good, listed or not.

    A number is its place in the list, or in that of the archived ones.
    """
    if db.get_session(wanted) is not None:
        return wanted
    return find(wanted, db.list_sessions(archived=True if archived else None, limit=LOOKED_AT))


async def found_by(host: "Host", wanted: str) -> str:
    """The conversation meant, where a host runs."""
    return find(wanted, await host.sessions(archived=None, limit=LOOKED_AT))


def find(wanted: str, listed: list[Listed]) -> str:
    """The id that fits; `InvalidInput` when none or several do.

    A number counts those that are not archived, as lists show them, unless all are.
    """
    ids = [each.session.id for each in listed]
    if wanted in ids:
        return wanted
    numbered = [each.session.id for each in listed if not each.archived] or ids
    if wanted.isdecimal() and 1 <= int(wanted) <= len(numbered):
        return numbered[int(wanted) - 1]
    folded = wanted.lower()
    fitting = [each for each in ids if each.lower().startswith(folded) or each.lower().endswith(folded)]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        raise InvalidInput(f"there is no conversation {wanted!r}; `holdfast sessions` lists them")
    raise InvalidInput(f"{wanted!r} fits {len(fitting)} conversations; give more of the id")


def day(moment: int) -> str:
    """A moment of the store, in the person's own time."""
    return datetime.fromtimestamp(moment / SECOND, UTC).astimezone().strftime("%Y-%m-%d %H:%M")


def listed_line(number: int, each: Listed, width: int) -> str:
    """One conversation in a list."""
    head = f"{number:>3}  …{each.session.id[-SHORT:]}  {day(each.last_spoken)}  {each.messages:>4} msg  "
    about = each.session.title or each.opening or "(nothing was said)"
    if each.pinned:
        about = f"[pinned] {about}"
    if width < len(head) + 16:
        head = f"{number:>3} …{each.session.id[-SHORT:]} "
    return head + one_line(about, max(10, width - len(head)))
