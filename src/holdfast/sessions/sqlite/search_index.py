"""The search index follows the messages in batches, so that an append doesn't pay for it.

Indexing many messages at once costs a third of indexing them one by one. The writer indexes when it is
idle, or when the index has fallen far behind; a search first indexes what is missing. Where the index
ends is read off the index itself, so a crash or another process leaves nothing to repair.
"""

from holdfast.sessions.contract import Transaction

BATCH = 400
MOST_CHARACTERS = 500_000
"""A batch ends with the message that reaches this, so that long texts don't keep an append waiting."""
FAR_BEHIND = 5_000


def unindexed(tx: Transaction) -> bool:
    """Whether messages are missing from the index."""
    return bool(tx.queries.unindexed_messages())


def index_batch(tx: Transaction) -> bool:
    """Index the oldest messages that are missing; returns whether more are."""
    tx.queries.index_messages(most=BATCH, most_characters=MOST_CHARACTERS)
    return unindexed(tx)
