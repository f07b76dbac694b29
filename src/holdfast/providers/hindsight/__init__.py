"""Long-term memory on a Hindsight server: in the cloud, yours, or a local one. Read `provider.py` first."""

from holdfast.providers.hindsight.provider import HindsightMemory, in_folder

__all__ = ["HindsightMemory", "in_folder"]
