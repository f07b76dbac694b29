"""An embedder without a model: the hash of each word selects a dimension."""

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

WIDTH = 64


class HashingEmbedder:
    """Deterministic; texts that share words are near. `before` runs first, `fails` makes every call raise."""

    def __init__(self, model: str = "hashing") -> None:
        self.model = model
        self.fails = False
        self.before: Callable[[Sequence[str]], object] = lambda _: None
        self.embedded: list[str] = []

    def embed(self, texts: Sequence[str]) -> Any:  # noqa: ANN401 - a numpy matrix
        self.before(texts)
        if self.fails:
            raise RuntimeError("no model today")
        self.embedded.extend(texts)
        rows = np.zeros((len(texts), WIDTH), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[0] = 0.1
            for word in re.findall(r"\w+", text.lower()):
                row[1 + hashlib.sha256(word.encode()).digest()[0] % (WIDTH - 1)] += 1
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)
