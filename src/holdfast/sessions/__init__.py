"""What is remembered word for word: the session store on SQLite and on PostgreSQL.

Read `contract.py` first, then `db.py`.
"""

from holdfast.sessions.contract import (
    Backlog,
    Deleted,
    Delivery,
    Engine,
    InboxMessage,
    Lease,
    Rotation,
    SearchHit,
    Session,
    SnippetPart,
    StoredMessage,
    StoredStatus,
    Transaction,
    TurnHistory,
    TurnRecord,
)
from holdfast.sessions.db import SessionDB
from holdfast.sessions.search import Filters

__all__ = [
    "Backlog",
    "Deleted",
    "Delivery",
    "Engine",
    "Filters",
    "InboxMessage",
    "Lease",
    "Rotation",
    "SearchHit",
    "Session",
    "SessionDB",
    "SnippetPart",
    "StoredMessage",
    "StoredStatus",
    "Transaction",
    "TurnHistory",
    "TurnRecord",
]
