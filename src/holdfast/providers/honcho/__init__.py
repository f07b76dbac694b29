"""Memory in Honcho, its cloud or a server of one's own. Needs the extra `honcho`. Read `provider.py`."""

from holdfast.providers.honcho.provider import HonchoMemory

__all__ = ["HonchoMemory"]
