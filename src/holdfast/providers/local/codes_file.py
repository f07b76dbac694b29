"""The file of codes beside the database: one bit for each dimension of a passage's vector, to search quickly.

It is only an index: all of it is made again from the vectors in the database when it is missing, damaged or
behind. Whoever writes to it holds the database's write transaction, so writers take turns. It needs no numpy,
so that any process can erase what is forgotten.

Codes are stored in blocks of `ROWS` passages, by passage id; a block has all first words, then all second
words, and so on, so that a search reads whole columns. A passage without a vector has zeros.
"""

import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

MAGIC = b"HFCODES1"
HEAD = struct.Struct("<8sI32s32sQQ")
CHECKSUM = struct.Struct("<I")
HEAD_LENGTH = HEAD.size + CHECKSUM.size
HEAD_BYTES = 4096
ROWS = 4096
WORD_BYTES = 8


@dataclass(frozen=True, slots=True)
class CodesHead:
    """What the file begins with."""

    words: int
    """How many words of 64 bits a code has."""
    store: bytes
    """The mark of the database that it belongs to."""
    model: bytes
    """The embedding model, hashed."""
    applied: int = 0
    """The codes of all vectors up to this stamp are in the file."""
    size: int = HEAD_BYTES
    """How long the file is; a shorter one was cut off."""

    def encoded(self) -> bytes:
        head = HEAD.pack(MAGIC, self.words, self.store, self.model, self.applied, self.size)
        return head + CHECKSUM.pack(zlib.crc32(head))


class CodesFile:
    """Reads the head of the file, and writes codes. Opens the file for each call, so it holds nothing."""

    def __init__(self, database: str) -> None:
        self.path = Path(f"{database}-codes")

    def head(self) -> CodesHead | None:
        """None when there is no such file, or a damaged one."""
        try:
            with self.path.open("rb") as file:
                return read_head(file.read(HEAD_LENGTH), os.fstat(file.fileno()).st_size)
        except OSError:
            return None

    def replace(self, head: CodesHead) -> None:
        """Begin an empty file. Processes that have mapped the old one keep it until they look again."""
        fresh = self.path.with_name(f"{self.path.name}.new")
        with suppress(FileNotFoundError):
            fresh.unlink()
        with os.fdopen(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600), "wb") as file:
            file.write(head.encoded().ljust(HEAD_BYTES, b"\0"))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.path)

    def add(self, codes: Sequence[tuple[int, bytes]], head: CodesHead, applied: int) -> None:
        """Write the codes of passages, and then the new head; a power cut can't leave the head alone."""
        last = max((passage for passage, _ in codes), default=0)
        size = max(head.size, _offset(head.words, (last // ROWS + 1) * ROWS, 0))
        with self._opened() as file:
            if os.fstat(file).st_size < size:
                os.ftruncate(file, size)
            for first, run in _runs(codes):
                for word in range(head.words):
                    begin = word * WORD_BYTES
                    column = b"".join(code[begin : begin + WORD_BYTES] for code in run)
                    os.pwrite(file, column, _offset(head.words, first, word))
            os.fsync(file)
            os.pwrite(file, replace(head, applied=applied, size=size).encoded(), 0)

    def erase(self, passages: Iterable[int]) -> None:
        """Overwrite the codes of passages with zeros, on disk too."""
        head = self.head()
        if head is None:
            # Nobody can say where a code is in a damaged file.
            with suppress(FileNotFoundError):
                self.path.unlink()
            return
        with self._opened() as file:
            for passage in passages:
                for word in range(head.words):
                    at = _offset(head.words, passage, word)
                    if at < head.size:
                        os.pwrite(file, bytes(WORD_BYTES), at)
            os.fsync(file)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        file = os.open(self.path, os.O_RDWR)
        try:
            yield file
        finally:
            os.close(file)


def read_head(data: bytes, size: int) -> CodesHead | None:
    """The head of a file of this size; None when it is damaged."""
    if len(data) < HEAD_LENGTH:
        return None
    packed = data[: HEAD.size]
    magic, words, store, model, applied, needed = HEAD.unpack(packed)
    checksum = CHECKSUM.unpack_from(data, HEAD.size)[0]
    if magic != MAGIC or checksum != zlib.crc32(packed) or size < needed:
        return None
    return CodesHead(words, store, model, applied, needed)


def _runs(codes: Sequence[tuple[int, bytes]]) -> Iterator[tuple[int, list[bytes]]]:
    """The codes of passages that follow each other in one block."""
    run: list[bytes] = []
    first = 0
    for passage, code in sorted(codes):
        if run and (passage != first + len(run) or passage % ROWS == 0):
            yield first, run
            run = []
        if not run:
            first = passage
        run.append(code)
    if run:
        yield first, run


def _offset(words: int, passage: int, word: int) -> int:
    block, row = divmod(passage, ROWS)
    return HEAD_BYTES + (block * words + word) * ROWS * WORD_BYTES + row * WORD_BYTES
