"""How conversations stand, many at a time."""

from collections.abc import Iterable

from holdfast.sessions.codec import to_json
from holdfast.sessions.contract import BusyConversation, Engine, StoredStatus, Transaction
from holdfast.sessions.leases import session_lease


class ConversationStatuses:
    """Looks that cost what they find, however many conversations there are."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def of(self, roots: Iterable[str]) -> list[StoredStatus]:
        """These conversations; one that is not there, or not any more, is left out."""
        conversations = to_json([[root, session_lease(root)] for root in roots])

        def work(tx: Transaction) -> list[StoredStatus]:
            rows = tx.queries.conversation_statuses(conversations=conversations)
            return [
                StoredStatus(root, session_id, title, bool(pinned), bool(archived), bool(ended), *rest)
                for root, session_id, title, pinned, archived, ended, *rest in rows
            ]

        return self._engine.read(work)

    def busy_elsewhere(self, holder: str) -> list[BusyConversation]:
        """Where something is to be done and this holder has no lease; each with who has one, if anybody."""
        return self._engine.read_once(
            lambda tx: [
                BusyConversation(root, bool(cut_off), who)
                for root, cut_off, who in tx.queries.conversations_of_others(holder=holder)
            ]
        )

    def delegated_turns(self) -> list[str]:
        """The sessions of subagents in which a turn is open."""
        return self._engine.read_once(lambda tx: [row[0] for row in tx.queries.delegated_turns()])
