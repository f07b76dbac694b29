"""Deleting a conversation: its sessions with all that belongs to them, in one transaction.

Its subagents' sessions go with it. A branch that left it is a conversation of its own, with copies of what
it began with, and stays. What memory has been told stays with memory; what is still owed to it is a reason
to refuse, unless the caller insists.
"""

from collections.abc import Callable

from holdfast.core.errors import SessionBusy, SessionNotFound, StillOwed
from holdfast.sessions.contract import SECOND, Deleted, Transaction
from holdfast.sessions.held_lease import HeldLease
from holdfast.sessions.leases import OF_A_SESSION, OF_A_TURN, current_lease, lease_name, session_lease
from holdfast.sessions.operations import operation
from holdfast.sessions.transcripts import root_of

REMEMBERED_US = 86_400 * SECOND
"""How long a deletion is on record for other processes to hear of."""


@operation
def delete_conversation(
    session_id: str, *, lease: HeldLease | None = None, force: bool = False
) -> Callable[[Transaction], Deleted]:
    """Delete the conversation that a session belongs to.

    With the conversation's `lease` a turn on record as running is one whose process died, and goes too.
    Without it, whatever runs or waits is a reason to refuse, and so is an owed delivery unless `force`.
    """

    def work(tx: Transaction) -> Deleted:
        root = root_of(tx, session_id)
        doomed = _locked(tx, root)
        if lease is not None:
            lease.require(tx)
        else:
            _refuse_held(tx, root)
        for each in doomed:
            _refuse_busy(tx, root, each, held=lease is not None, force=force)
        if not force:
            _refuse_owed(tx, root, doomed)
        return Deleted(root, tuple(session for each in doomed[::-1] for session in _remove(tx, each)))

    return work


def _locked(tx: Transaction, root: str) -> list[str]:
    """The conversation and those of its subagents, none of which can grow any more."""
    while True:
        doomed = [row[0] for row in tx.queries.conversations_to_delete(root=root)]
        if not doomed:
            raise SessionNotFound(root)
        if tx.alone:
            return doomed
        for each in doomed:
            list(tx.queries.lock_conversation(root=each))
        # A subagent may have begun between the look and the locks.
        if doomed == [row[0] for row in tx.queries.conversations_to_delete(root=root)]:
            return doomed


def _refuse_held(tx: Transaction, root: str) -> None:
    held = current_lease(tx, session_lease(root))
    if held is not None:
        raise SessionBusy(root, "another process runs it", wanted="be deleted")


def _refuse_busy(tx: Transaction, root: str, each: str, *, held: bool, force: bool) -> None:
    running = tx.queries.running_in_conversation(root=each)
    if running is not None and not held and not force:
        raise SessionBusy(root, f"turn {running!r} is running", wanted="be deleted")
    waiting = tx.queries.waiting_in_conversation(root=each)
    if waiting and not force:
        raise SessionBusy(root, f"{waiting} messages wait in its inbox", wanted="be deleted")


def _refuse_owed(tx: Transaction, root: str, doomed: list[str]) -> None:
    owed: dict[str, int] = {}
    for each in doomed:
        for provider, count in tx.queries.owed_by_conversation(root=each):
            owed[provider] = owed.get(provider, 0) + count
    if owed:
        raise StillOwed(root, owed)


def _remove(tx: Transaction, root: str) -> list[str]:
    """All of one conversation, what refers to another row before that row."""
    queries = tx.queries
    queries.forget_deletions(keep_us=REMEMBERED_US)
    # First: the schema lets no message go whose conversation isn't noted here.
    queries.note_deletion(root=root)
    queries.measure_storage_again(root=root)
    turns = [row[0] for row in queries.turns_of_conversation(root=root)]
    sessions = [row[0] for row in queries.sessions_of_conversation(root=root)]
    names = [lease_name(purpose, each) for each in sessions for purpose in OF_A_SESSION]
    names += [lease_name(purpose, each) for each in turns for purpose in OF_A_TURN]
    for name in names:
        queries.delete_lease(name=name)
    tx.dialect.forget_words(tx, root)
    queries.free_chat_rooms(root=root)
    queries.erase_chat_events(root=root)
    queries.delete_chat_posts(root=root)
    queries.free_addressed_messages(root=root)
    queries.delete_inbox(root=root)
    queries.delete_outbox(root=root)
    queries.delete_messages(root=root)
    queries.keep_deleted_usage(root=root, keep_us=REMEMBERED_US)
    queries.free_usage(root=root)
    queries.forget_deleted_turns(keep_us=REMEMBERED_US)
    queries.keep_deleted_turns(root=root, keep_us=REMEMBERED_US)
    queries.delete_file_changes(root=root)
    queries.delete_turns(root=root)
    queries.delete_choice(root=root)
    queries.free_branches(root=root)
    queries.delete_sessions(root=root)
    return sessions
