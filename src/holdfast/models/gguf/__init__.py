"""Language models from GGUF files, run on this machine. Read `model.py`, the adapter, first."""

from holdfast.models.gguf.model import GgufModel, PromptStyle

__all__ = ["GgufModel", "PromptStyle"]
