"""How conversations stand, many at a time, and which of them something happened to."""

from collections.abc import Iterable

from holdfast.sessions.codec import to_json
from holdfast.sessions.contract import SECOND, Engine, News, Standing, Transaction
from holdfast.sessions.leases import session_lease

OVERLAP_US = 6 * SECOND
"""How far a look reaches back: what is written now is seen when its transaction ends, and when a session was
last spoken in stands a second back at most."""


class Standings:
    """Looks that cost what they find, however many conversations there are."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def of(self, roots: Iterable[str]) -> list[Standing]:
        """These conversations; one that is not there, or not any more, is left out."""
        places = to_json([[root, session_lease(root)] for root in roots])

        def work(tx: Transaction) -> list[Standing]:
            rows = tx.queries.standings(tx.connection, places=places)
            return [
                Standing(root, session_id, title, bool(pinned), bool(archived), bool(ended), *rest)
                for root, session_id, title, pinned, archived, ended, *rest in rows
            ]

        return self._engine.read(work)

    def news(self, since: int | None = None) -> News:
        """Conversations that are busy, and those that changed, were spoken in or deleted since a look."""

        def work(tx: Transaction) -> News:
            now = int(tx.queries.store_time(tx.connection))
            busy = {row[0] for row in tx.queries.busy_conversations(tx.connection)}
            if since is None:
                return News(now, frozenset(busy), frozenset())
            rows = tx.queries.changed_conversations(tx.connection, since=since - OVERLAP_US)
            return News(now, frozenset(busy), frozenset(row[0] for row in rows))

        return self._engine.read(work)
