"""What the conversations of an account keep in the store, in bytes: for its limit of storage.

Counted are the messages as they are stored (text, results of tools, pictures; copies in branches and
compactions too) and what was sent to the inbox. Each message is read once: `stored_sizes` says up to where a
session is counted, so a measurement costs what is new. Turns do not wait for it (`host/accounts.py`).
"""

from collections.abc import Callable

from holdfast.sessions.contract import SECOND, Transaction
from holdfast.sessions.operations import operation

SESSIONS_AT_ONCE = 20
"""How many sessions one transaction reads: the first measurement of an account holds up no other write."""


@operation
def measure_storage(scope: str, within_s: float = 0.0) -> Callable[[Transaction], int | None]:
    """Count what is new of an account; what it keeps, or None while there is more to count.

    An account that was measured within these seconds is not measured again.
    """

    def work(tx: Transaction) -> int | None:
        lately: int | None = tx.queries.storage_measured_lately(scope=scope, within_us=int(within_s * SECOND))
        if within_s and lately is not None:
            return lately
        if tx.queries.count_stored(scope=scope, most=SESSIONS_AT_ONCE) >= SESSIONS_AT_ONCE:
            return None
        size = int(tx.queries.stored_size(scope=scope))
        tx.queries.note_storage(scope=scope, bytes=size)
        return size

    return work
