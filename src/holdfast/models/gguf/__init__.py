"""Language models from GGUF files, run on this machine. `model.py` is the adapter; read it first."""

from holdfast.models.gguf.model import GgufModel, Style

__all__ = ["GgufModel", "Style"]
