"""The conversations as a list, and branches that leave one at any message."""

from dataclasses import dataclass

from holdfast.core.errors import InvalidInput
from holdfast.sessions.codec import checked_limit, checked_name, checked_number
from holdfast.sessions.contract import Engine, Session, Transaction
from holdfast.sessions.transcripts import create_session, lock_session, require_session

PREVIEW = 200


@dataclass(frozen=True, slots=True)
class Listed:
    """One conversation at its live end: how long it is, when it was last spoken in, and how it opens."""

    session: Session
    messages: int
    last_spoken: int
    opening: str


class Listing:
    """Finds conversations to go on with."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def sessions(self, *, source: str | None = None, limit: int | None = 50, offset: int = 0) -> list[Listed]:
        """The conversations, the one last spoken in first."""
        most = checked_limit(limit)
        skipped = checked_number("an offset", offset)
        if skipped < 0:
            raise InvalidInput(f"an offset is a number from 0, not {skipped}")

        def work(tx: Transaction) -> list[Listed]:
            rows = tx.queries.list_sessions(tx.connection, source=source, limit=most, offset=skipped)
            return [
                Listed(Session(*row[:10]), row[10], row[11], " ".join((row[12] or "").split())[:PREVIEW])
                for row in rows
            ]

        return self._engine.read(work)

    def branch(self, session_id: str, branch_id: str, before: int | None = None) -> Session:
        """A new session that begins with copies of the messages before a place; None: of all."""
        checked_name("a session id", branch_id)

        def work(tx: Transaction) -> Session:
            lock_session(tx, session_id)
            origin = require_session(tx, session_id)
            count = int(tx.queries.message_count(tx.connection, session_id=session_id))
            place = count if before is None else before
            if not 0 <= place <= count:
                raise InvalidInput(f"a branch leaves between 0 and {count}, not at {before!r}")
            branch = create_session(tx, branch_id, origin.source, origin.title, session_id, "branch")
            tx.queries.copy_messages(tx.connection, parent=session_id, child=branch_id, before=place)
            return branch

        return self._engine.write(work)
