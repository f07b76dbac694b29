"""Long-term memory on an OpenViking server, over HTTP. Read `provider.py` first."""

from holdfast.providers.openviking.provider import OpenVikingMemory, in_folder

__all__ = ["OpenVikingMemory", "in_folder"]
