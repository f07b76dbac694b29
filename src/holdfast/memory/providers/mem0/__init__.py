"""Memory with mem0, on this machine or on its platform. Needs `holdfast[mem0]`. Read `provider.py` first."""

from holdfast.memory.providers.mem0.provider import Mem0Memory

__all__ = ["Mem0Memory"]
