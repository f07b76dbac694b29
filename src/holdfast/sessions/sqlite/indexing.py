"""The search index follows the messages in batches, so that an append doesn't pay for it.

Indexing many messages at once costs a third of indexing them one by one. The writer indexes when it is
idle, or when the index has fallen far behind; a search first indexes what is missing. Where the index
ends is read off the index itself, so a crash or another process leaves nothing to repair.
"""

from holdfast.sessions.contract import Transaction

BATCH = 200
FAR_BEHIND = 5_000


def unindexed(tx: Transaction) -> bool:
    """Whether messages are missing from the index."""
    return bool(tx.queries.unindexed_messages(tx.connection))


def index_batch(tx: Transaction) -> int:
    """Index the oldest messages that are missing; returns how many there were, at most a batch."""
    return int(tx.queries.index_messages(tx.connection, most=BATCH))
