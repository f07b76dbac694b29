"""Reads what Holdfast needs from the head of a GGUF file, and refuses what isn't one.

Only the key-value pairs at the beginning are read, not the weights.
"""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from holdfast.core.errors import ModelFileInvalid, ModelMissing
from holdfast.models.model_size import parameters_in

MAGIC = b"GGUF"
VERSIONS = (2, 3)
# Far above what real files hold, far below what would exhaust the memory.
MOST_PAIRS = 100_000
LONGEST_TEXT = 16 * 1024 * 1024

STRING, ARRAY = 8, 9
NUMBERS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}

Value = str | int | float | None
"""None stands for an array: it is passed over."""


@dataclass(frozen=True, slots=True)
class GgufHeader:
    name: str
    """As the file calls itself; its file name when it has none."""
    context_length: int
    """Tokens it was trained on; 0 when the file doesn't say."""
    parameters: int | None = None
    """How many it has, as its label or one of its names says."""


def read_header(path: Path) -> GgufHeader:
    """The head of the file at `path`; raises `ModelMissing` or `ModelFileInvalid`."""
    try:
        with path.open("rb") as file:
            return _header(path, file)
    except FileNotFoundError:
        raise ModelMissing(
            f"there is no model file {path}. Name a GGUF file that exists, or another model."
        ) from None
    except OSError as cause:
        raise ModelFileInvalid(str(path), f"it can't be read ({cause.strerror})") from cause


def _header(path: Path, file: BinaryIO) -> GgufHeader:
    begins = file.read(4)
    if begins != MAGIC:
        raise ModelFileInvalid(str(path), f"it is not a GGUF file (it begins with {begins!r})")
    size = path.stat().st_size
    try:
        version = int(_number(file, "<I"))
        if version not in VERSIONS:
            raise ModelFileInvalid(str(path), f"its GGUF version {version} is not known here")
        _number(file, "<Q")  # how many tensors
        found = _pairs(file, int(_number(file, "<Q")), size)
    except (EOFError, UnicodeDecodeError, ValueError) as cause:
        raise ModelFileInvalid(str(path), f"its head is damaged or cut off ({cause})") from cause
    architecture = str(found.get("general.architecture") or "")
    length = found.get(f"{architecture}.context_length")
    name = str(found.get("general.name") or path.stem)
    return GgufHeader(
        name=name,
        context_length=length if isinstance(length, int) else 0,
        parameters=parameters_in(f"{found.get('general.size_label')} {name} {path.stem}"),
    )


def _pairs(file: BinaryIO, count: int, size: int) -> dict[str, Value]:
    if count > MOST_PAIRS:
        raise ValueError(f"{count} entries")
    found: dict[str, Value] = {}
    for _ in range(count):
        key = _text(file)
        architecture = found.get("general.architecture")
        if key.startswith("tokenizer.") and f"{architecture}.context_length" in found:
            break  # what follows is the vocabulary, which is long and of no use here
        found[key] = _value(file, int(_number(file, "<I")), size)
    return found


def _value(file: BinaryIO, kind: int, size: int) -> Value:
    if kind == STRING:
        return _text(file)
    if kind == ARRAY:
        _pass_array(file, size)
        return None
    if kind not in NUMBERS:
        raise ValueError(f"an entry of the unknown type {kind}")
    return _number(file, NUMBERS[kind])


def _pass_array(file: BinaryIO, size: int) -> None:
    kind, count = int(_number(file, "<I")), int(_number(file, "<Q"))
    if kind in NUMBERS:
        end = file.tell() + count * struct.calcsize(NUMBERS[kind])
        if end > size:
            raise EOFError("an array reaches past the end of the file")
        file.seek(end)
        return
    for _ in range(count):  # each read raises at the end of the file, whatever the count says
        _value(file, kind, size)


def _text(file: BinaryIO) -> str:
    length = int(_number(file, "<Q"))
    if length > LONGEST_TEXT:
        raise ValueError(f"a text of {length} bytes")
    return _bytes(file, length).decode("utf-8")


def _number(file: BinaryIO, form: str) -> int | float:
    number: int | float = struct.unpack(form, _bytes(file, struct.calcsize(form)))[0]
    return number


def _bytes(file: BinaryIO, count: int) -> bytes:
    data = file.read(count)
    if len(data) < count:
        raise EOFError("it ends too early")
    return data
