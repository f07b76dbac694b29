"""`holdfast memory forget` and `forgotten`: delete memories everywhere, and list what was deleted."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from cyclopts import Parameter, validators

from holdfast.cli.output import show, width
from holdfast.cli.session_lookup import day, find_in_store
from holdfast.core.clean_text import one_line
from holdfast.core.errors import InvalidInput
from holdfast.memory import MemoryManager
from holdfast.memory.forget_selection import ForgetQuery, ForgetSelection, period_of
from holdfast.memory.forgetter import Forgetter
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import SECOND
from holdfast.sessions.forgettings import Forgetting
from holdfast.wiring import build_memory, existing_store, load_settings

Yes = Annotated[bool, Parameter(negative="")]
Most = Annotated[int, Parameter(validator=validators.Number(gte=1))]
WAIT_SECONDS = 30.0
SHOWN = 20
STATES = {"owed": "not done yet; it is carried out when the provider works again", "failed": "failed"}


def forget(  # noqa: PLR0913 - each is an option of the command
    *numbers: int,
    words: str = "",
    after: str = "",
    before: str = "",
    on: str = "",
    session: str = "",
    person: str = "",
    provider: str = "",
    yes: Yes = False,
) -> None:
    """Delete memories for good, from every memory provider that they went to.

    Select them in one way: by their numbers, by words, by time, by conversation or by person. The
    conversations themselves stay on record. Except by number, it shows what would go and asks.

    Parameters
    ----------
    numbers
        The numbers that `holdfast memory search` shows. A turn is deleted as a whole.
    words
        Every memory that has all of these words.
    after
        Everything since this day or moment, like 2025-01-31 or 2025-01-31T18:00.
    before
        Everything before this day or moment.
    on
        Everything of this day.
    session
        Everything of a conversation: its id, the end of it, or its number in the list.
    person
        Every turn in which this person spoke, named as in the messages; `user` is who has no name.
    provider
        With numbers or words: the provider that has them; by default the first that can be searched, or all.
    yes
        Delete without asking. Needed without a terminal.

    """
    since, until = period_of(after=after, before=before, on=on)
    with existing_store(load_settings()) as db, _memory(db) as memory:
        query = ForgetQuery(
            words=words,
            memories=tuple((provider, str(each)) for each in numbers),
            after=since,
            before=until,
            session_id=find_in_store(db, session) if session else "",
            person=person,
            provider=provider,
        )
        forgetter = memory.forgetter
        selection = forgetter.select.of(query)
        if selection.is_empty:
            show("nothing in memory fits that; nothing was forgotten")
            return
        if not numbers and not yes and not _agreed(selection):
            show("nothing was forgotten")
            return
        carry_out(forgetter, selection)
        show("the conversations themselves stay on record")


def forgotten(*, limit: Most = 50) -> None:
    """List what was forgotten, newest first: when and how much, without its content.

    Parameters
    ----------
    limit
        How many at most.

    """
    with existing_store(load_settings()) as db:
        found = db.forgettings.list(limit=limit)
    for each in found:
        show(f"{each.id:>6}  {day(each.requested)}  by {each.kind}: {_turns(each.turns)}")
        _show_providers(each)
    if not found:
        show("Nothing was forgotten yet.")


def retry_forgetting(number: int, /) -> None:
    """Try a forgetting again where it failed.

    Parameters
    ----------
    number
        The number that `holdfast memory forgotten` shows.

    """
    with existing_store(load_settings()) as db, _memory(db) as memory:
        memory.forgetter.retry(number)
        record = memory.forgetter.wait(number, WAIT_SECONDS)
        if record is not None:
            _show_providers(record)


def forget_conversation(db: SessionDB, session_id: str) -> None:
    """Have every provider forget a conversation that is about to be deleted."""
    with _memory(db) as memory:
        selection = memory.forgetter.select.by_conversation(session_id)
        if not selection.is_empty:
            carry_out(memory.forgetter, selection)


def carry_out(forgetter: Forgetter, selection: ForgetSelection) -> None:
    """Store the request, wait for the providers and print what each did."""
    number = forgetter.forget(selection)
    record = forgetter.wait(number, WAIT_SECONDS)
    if record is None:
        raise InvalidInput(f"the record of forgetting {number} is gone")
    show(f"forgot {_selected(selection)}")
    _show_providers(record)


def _agreed(selection: ForgetSelection) -> bool:
    show(f"this would be forgotten for good: {_selected(selection)}")
    for each in selection.memories[:SHOWN]:
        when = day(int((each.created or 0) * SECOND))
        line = f"{each.id:>6}  {when}  {each.speaker or each.kind}: {one_line(each.text, width())}"
        show(one_line(line, width(), squeeze=False))
    if len(selection.memories) > SHOWN:
        show(f"and {len(selection.memories) - SHOWN} more")
    for name, why in selection.not_searched.items():
        show(f"{name} could not be searched: {why}")
    if not sys.stdin.isatty():
        raise InvalidInput("forgetting can't be undone; without a terminal, confirm it with --yes")
    try:
        answer = input("Forget it in every memory provider? [y/N] ")
    except EOFError:
        return False
    return answer.strip().lower() in ("y", "yes")


def _selected(selection: ForgetSelection) -> str:
    parts = []
    if selection.memories:
        count = len(selection.memories)
        parts.append("1 memory" if count == 1 else f"{count} memories")
    if selection.turns or not parts:
        parts.append(_turns(len(selection.turns)))
    if selection.period is not None:
        parts.append("notes and facts of that time")
    return ", ".join(parts)


def _turns(count: int) -> str:
    return "1 turn" if count == 1 else f"{count} turns"


def _show_providers(record: Forgetting) -> None:
    for each in record.providers:
        what = STATES.get(each.state, f"{each.forgotten} deleted" if each.forgotten else "nothing deleted")
        note = f"; {each.note}" if each.note else ""
        show(f"        {each.provider}: {what}{note}")


@contextmanager
def _memory(db: SessionDB) -> Iterator[MemoryManager]:
    """The memory of the settings, working as in a chat; what it still owes is said at the end."""
    memory, problems = build_memory(load_settings(), db)
    for problem in problems:
        show(f"left out: {problem}")
    try:
        yield memory
    finally:
        for line in memory.shutdown_all():
            show(line)
