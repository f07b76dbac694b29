"""Memory with mem0, on this machine or on its platform. Needs the extra `mem0`. Read `provider.py` first."""

from holdfast.providers.mem0.provider import Mem0Memory

__all__ = ["Mem0Memory"]
