"""Opens models that run on this machine: the small model for Holdfast, or any GGUF file.

They need no key and no network. `gguf/model.py` is the adapter, `weights.py` finds the file of the small
model, and `install_embedded.py` downloads it.
"""

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from holdfast.core.contract import Clock
from holdfast.core.distribution import install_command
from holdfast.core.errors import ModelMissing
from holdfast.models.contract import FREE, ModelTraits
from holdfast.models.gguf import GgufModel, PromptStyle
from holdfast.models.gguf.header import read_header
from holdfast.models.gguf.worker_handle import RuntimeSpec
from holdfast.models.weights import INSTALL, find_weights

RUNTIME = "xllamacpp"
RUNTIME_INSTALL = install_command("embedded")

NAME = "SmolLM2-135M-Instruct"
EMBEDDED_CONTEXT = 4096
NOTICE = (
    f"{NAME} is a small stand-in on this machine, there to try out Holdfast without a key: it says a few "
    "sentences, has no tools, and much of what it says is wrong. For real work set OPENAI_API_KEY, or "
    "OPENAI_BASE_URL for another server (Ollama, for example: http://localhost:11434/v1), or name a model in "
    "the settings file."
)
EMBEDDED_STYLE = PromptStyle(
    own_system="You are a helpful assistant. Answer briefly and plainly.",
    # Such a small model forgets the question after long instructions.
    longest_system=400,
    longest_answer=160,
    # Without the penalties it repeats one sentence until its limit.
    sampling={
        "temperature": 0.2,
        "top_p": 0.9,
        # A stronger one also keeps it from the right word.
        "repeat_penalty": 1.05,
        "dry_multiplier": 0.8,
        "dry_allowed_length": 4,
    },
    most_sentences=5,
)

# A longer window takes more memory, whether it is used or not.
GGUF_CONTEXT = 8192
MIN_CONTEXT = 256
MAX_THREADS = 8


@dataclass(frozen=True, slots=True)
class EmbeddedState:
    """Which parts of the embedded model are installed. `missing` says how to get the others."""

    runtime: bool
    weights: Path | None
    missing: str = ""

    @property
    def ready(self) -> bool:
        return not self.missing


def embedded_state(data_folder: Path) -> EmbeddedState:
    """Whether the embedded model could run. Nothing is loaded for this."""
    runtime, weights = _has_runtime(), find_weights(data_folder)
    missing = []
    if not runtime:
        missing.append(f"its runtime is not installed. Install it with: {RUNTIME_INSTALL}")
    if weights is None:
        missing.append(f"its weights are not here. Fetch them (98 MB) with: {INSTALL}")
    return EmbeddedState(runtime, weights, "; ".join(missing))


def open_embedded(data_folder: Path, *, weights: Path | None = None, clock: Clock | None = None) -> GgufModel:
    """Open the small model for Holdfast; raises `ModelMissing`, which says what to install.

    It gets no tools. A system text of more than 400 characters is replaced by a short one.
    """
    state = embedded_state(data_folder)
    file = weights or state.weights
    if not state.runtime or file is None:
        raise ModelMissing(f"the embedded model can't run: {state.missing}")
    header = read_header(file)
    spec = RuntimeSpec(file.resolve(), EMBEDDED_CONTEXT, threads_to_use())
    traits = ModelTraits(
        name=NAME,
        context_window=EMBEDDED_CONTEXT,
        calls_tools=False,
        sees_pictures=False,
        summarises=False,
        notice=NOTICE,
        prices=FREE,
        parameters=header.parameters,
        provider="llamacpp",
    )
    return GgufModel(spec, traits, EMBEDDED_STYLE, clock=clock)


def open_gguf(
    path: Path,
    *,
    context: int | None = None,
    temperature: float | None = None,
    clock: Clock | None = None,
) -> GgufModel:
    """Open any instruct model in a GGUF file, with tools.

    `context` is its window in tokens: by default what it was trained on, up to 8,192. Raises `ModelMissing`
    when the file or the runtime isn't there, and `ModelFileInvalid` when it is no GGUF file.
    """
    header = read_header(path)
    if not _has_runtime():
        raise ModelMissing(f"nothing to run {path} with. Install the runtime with: {RUNTIME_INSTALL}")
    window = context or min(header.context_length or GGUF_CONTEXT, GGUF_CONTEXT)
    window = max(window, MIN_CONTEXT)
    spec = RuntimeSpec(path.resolve(), window, threads_to_use())
    style = PromptStyle(sampling={} if temperature is None else {"temperature": temperature})
    traits = ModelTraits(
        name=header.name,
        context_window=window,
        sees_pictures=False,
        prices=FREE,
        parameters=header.parameters,
        provider="llamacpp",
    )
    return GgufModel(spec, traits, style, clock=clock)


def threads_to_use() -> int:
    """All cores but one: the runtime's threads wait for each other, so one slow thread delays all."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(MAX_THREADS, max(1, cores - 1))


def _has_runtime() -> bool:
    return find_spec(RUNTIME) is not None
