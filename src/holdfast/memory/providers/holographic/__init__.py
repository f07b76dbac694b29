"""Facts, entities, trust and holographic vectors in one SQLite file. Read `provider.py` first."""

from holdfast.memory.providers.holographic.facts import Fact, Statement
from holdfast.memory.providers.holographic.provider import Description, HolographicMemory, in_folder

__all__ = ["Description", "Fact", "HolographicMemory", "Statement", "in_folder"]
