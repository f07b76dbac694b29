"""`AuditLog`: who changed accounts, tokens, roles and limits, and who signed in or was refused.

An entry of a change is stored in the transaction of the change, by `note`. It holds no secret. The newest
entries of each actor are kept; what is older goes. Nobody's entries take another's out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.core.messages import storable
from holdfast.sessions.codec import LARGEST, checked_limit, checked_name
from holdfast.sessions.contract import Engine, Transaction
from holdfast.sessions.operations import operation

KEPT_ENTRIES = 10_000
"""Of each actor."""
LONGEST_DETAIL = 1_000
INSTALLATION = "installation"
"""The actor with the installation's token or a terminal on its machine; an account's name is its scope."""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One thing that was done. Actor and target are scopes of accounts, `installation`, or empty."""

    id: int
    at: int
    actor: str
    action: str
    target: str
    detail: str


class AuditLog:
    """The log of one store."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def record(self, actor: str, action: str, target: str = "", detail: str = "") -> None:
        """Keep an entry of something that changes no table of its own: a sign-in that was refused, say."""
        self._engine.write(record_audit(actor, action, target, detail))

    def list(
        self, *, about: str | None = None, before: int | None = None, limit: int = 100
    ) -> Sequence[AuditEntry]:
        """The newest entries first: all, or those in which an account (its scope) is actor or target."""
        most, place = checked_limit(limit), LARGEST if before is None else before
        return self._engine.read(
            lambda tx: [
                AuditEntry(*row)
                for row in tx.queries.list_audit_entries(before=place, target=about, limit=most)
            ]
        )


@operation
def record_audit(
    actor: str, action: str, target: str = "", detail: str = ""
) -> Callable[[Transaction], None]:
    """Keep one entry of the audit log."""
    checked_name("an action", action)
    return lambda tx: note(tx, actor, action, target, detail)


def note(tx: Transaction, actor: str, action: str, target: str = "", detail: str = "") -> None:
    """Keep an entry in the transaction of what it tells."""
    tx.queries.add_audit_entry(
        actor=_short(actor), action=action, target=_short(target), detail=_short(detail)
    )
    tx.queries.forget_old_audit_entries(actor=_short(actor), most=KEPT_ENTRIES)


def _short(text: str) -> str:
    return storable(text)[:LONGEST_DETAIL]
