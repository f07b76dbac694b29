"""Long-term memory: the provider contract, the lanes that call providers and drain the outbox, the lifecycle.

Read `contract.py` first, then `manager.py` and `lifecycle.py`.
"""

from holdfast.memory.contract import CompletedTurn, MemoryProvider, ProviderStatus
from holdfast.memory.lifecycle import SessionLifecycle
from holdfast.memory.manager import MemoryManager

__all__ = ["CompletedTurn", "MemoryManager", "MemoryProvider", "ProviderStatus", "SessionLifecycle"]
