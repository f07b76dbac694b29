"""Facts, entities, trust and holographic vectors in one SQLite file. Read `provider.py` first."""

from holdfast.providers.holographic.facts import Fact, HolographicDescription, Statement
from holdfast.providers.holographic.provider import HolographicMemory, in_folder

__all__ = ["Fact", "HolographicDescription", "HolographicMemory", "Statement", "in_folder"]
