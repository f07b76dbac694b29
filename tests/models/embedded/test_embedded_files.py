"""What happens when the runtime or the weights are missing, damaged, or something else altogether."""

import asyncio
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import ModelFailure, ModelFileInvalid, ModelMissing
from holdfast.models.embedded import open_embedded, open_gguf
from holdfast.models.gguf.header import read_header
from tests.models.embedded.gguf_fixtures import answer, asking, closed, workers

SAYS_WHAT_IS_MISSING = """
from pathlib import Path
from holdfast.core.errors import ModelMissing
from holdfast.models.embedded import embedded_state, open_embedded
assert not embedded_state(Path("/nowhere")).ready
try:
    open_embedded(Path("/nowhere"))
except ModelMissing as missing:
    print(missing)
"""


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def head(*pairs: bytes, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, 0, len(pairs)) + b"".join(pairs)


WHOLE = head(
    text("general.architecture") + struct.pack("<I", 8) + text("llama"),
    text("general.tags") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b"),
    text("general.sizes") + struct.pack("<IIQ", 9, 4, 3) + bytes(12),
    text("llama.context_length") + struct.pack("<II", 4, 2048),
    text("general.name") + struct.pack("<I", 8) + text("Tiny"),
)


def run_without_packages(*extra: Path) -> str:
    source = Path(__file__).parents[3] / "src"
    child = subprocess.run(
        [sys.executable, "-S", "-c", SAYS_WHAT_IS_MISSING],
        env={"PYTHONPATH": ":".join(map(str, (source, *extra)))},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return child.stdout


def test_without_runtime_and_weights_it_names_both_commands() -> None:
    said = run_without_packages()
    assert "pip install 'holdfast-agent[embedded]'" in said
    assert "holdfast model install" in said


def test_without_weights_alone_it_names_one_command(tmp_path: Path) -> None:
    (tmp_path / "xllamacpp.py").touch()
    said = run_without_packages(tmp_path)
    assert "pip install" not in said
    assert "holdfast model install" in said


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match=r"no model file .*absent\.gguf"):
        open_gguf(tmp_path / "absent.gguf")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "not a GGUF file"),
        (b"<!DOCTYPE html>", "not a GGUF file"),
        (b"GGUF", "damaged or cut off"),
        (head(version=1), "version 1"),
        (struct.pack(">4sI", b"GGUF", 3), "version"),
        (WHOLE[:60], "damaged or cut off"),
        (head(text("a") + struct.pack("<I", 99)), "unknown type 99"),
        (head(text("a") + struct.pack("<IQ", 8, 1 << 60)), "damaged or cut off"),
        (head(text("a") + struct.pack("<IIQ", 9, 4, 1 << 60)), "past the end"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 60), "damaged or cut off"),
    ],
)
def test_what_is_no_gguf_file_is_refused_when_it_is_opened(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(content)
    with pytest.raises(ModelFileInvalid, match=problem):
        open_gguf(file)
    with pytest.raises(ModelFileInvalid, match="left as it is"):
        open_embedded(tmp_path, weights=file)
    assert file.read_bytes() == content


def test_a_folder_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ModelFileInvalid, match="can't be read"):
        open_gguf(tmp_path)


@given(cut=st.integers(0, len(WHOLE)), at=st.integers(0, len(WHOLE) - 1), byte=st.integers(0, 255))
def test_a_damaged_head_is_read_or_refused_but_never_worse(
    tmp_path_factory: pytest.TempPathFactory, cut: int, at: int, byte: int
) -> None:
    file = tmp_path_factory.getbasetemp() / "damaged.gguf"
    file.write_bytes((WHOLE[:at] + bytes([byte]) + WHOLE[at + 1 :])[:cut])
    with suppress(ModelFileInvalid):
        read_header(file)


def test_the_window_and_the_name_come_from_the_file(tmp_path: Path, weights: Path) -> None:
    file = tmp_path / "tiny.gguf"
    file.write_bytes(WHOLE)
    assert open_gguf(file).traits.name == "Tiny"
    assert open_gguf(file).traits.context_window == 2048
    assert open_gguf(file, context=512).traits.context_window == 512
    assert open_gguf(weights).traits.context_window == 8192


@pytest.mark.parametrize("keep", [len(WHOLE), 2_000_000, 60_000_000])
def test_a_file_that_is_cut_off_fails_to_load_with_the_reason(
    tmp_path: Path, weights: Path, keep: int
) -> None:
    file = tmp_path / "cut.gguf"
    file.write_bytes(WHOLE if keep == len(WHOLE) else weights.read_bytes()[:keep])
    model = open_gguf(file)
    before = workers()
    for _ in range(2):
        with pytest.raises(ModelFileInvalid, match=r"cut\.gguf can't be used") as refused:
            asyncio.run(answer(model, asking("Hello!")))
        assert isinstance(refused.value, ModelFailure)
        assert workers() == before
    closed(model)
