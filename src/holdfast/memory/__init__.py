"""What is remembered in essence: providers, their lanes, the outbox drain and the lifecycle.

Read `contract.py` first.
"""

from holdfast.memory.contract import CompletedTurn, MemoryProvider, ProviderStatus
from holdfast.memory.lifecycle import SessionLifecycle

__all__ = ["CompletedTurn", "MemoryProvider", "ProviderStatus", "SessionLifecycle"]
