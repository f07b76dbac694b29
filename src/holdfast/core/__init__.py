"""What every other package uses: messages, events, states, ids, errors, time, secrets, settings.

It imports no other package. Read `contract.py` first.
"""

from holdfast.core.clock import SystemClock
from holdfast.core.contract import Clock, Message, ToolCall
from holdfast.core.errors import HoldfastError, Retryable
from holdfast.core.ids import new_id
from holdfast.core.secret import Secret

__all__ = [
    "Clock",
    "HoldfastError",
    "Message",
    "Retryable",
    "Secret",
    "SystemClock",
    "ToolCall",
    "new_id",
]
