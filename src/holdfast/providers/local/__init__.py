"""The built-in memory on one SQLite file: full text, vectors, notes. Read `provider.py` first."""

from holdfast.providers.local.description import LocalDescription
from holdfast.providers.local.embedding import Embedder, MiniLM
from holdfast.providers.local.provider import LocalMemory, in_folder
from holdfast.providers.local.recall import FoundPassage

__all__ = ["Embedder", "FoundPassage", "LocalDescription", "LocalMemory", "MiniLM", "in_folder"]
