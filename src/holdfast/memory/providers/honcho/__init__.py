"""Memory in Honcho, its cloud or a server of one's own. Needs `holdfast[honcho]`. Read `provider.py`."""

from holdfast.memory.providers.honcho.provider import HonchoMemory

__all__ = ["HonchoMemory"]
