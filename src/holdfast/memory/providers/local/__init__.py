"""The built-in memory on one SQLite file: full text, vectors, notes. Read `provider.py` first."""

from holdfast.memory.providers.local.embedding import Embedder, MiniLM
from holdfast.memory.providers.local.provider import Description, LocalMemory, in_folder
from holdfast.memory.providers.local.recall import Memory

__all__ = ["Description", "Embedder", "LocalMemory", "Memory", "MiniLM", "in_folder"]
