"""`StdioTransport`: JSON-RPC over standard input and output, one message a line.

Both are taken away from everything else: what a library prints goes to standard error, and a child process
reads nothing. A line that is no message is answered by an error and skipped; it does not end the connection.
"""

import asyncio
import json
import os
from pathlib import Path
from typing import Any, BinaryIO, cast

from holdfast.process import DaemonPool, off_loop

MAX_LINE_BYTES = 64_000_000
"""More than the largest message that the host takes, with its pictures."""
PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS = -32700, -32600, -32602
STDIN, STDOUT, STDERR = 0, 1, 2


class StdioTransport:
    """The transport that the SDK's connection sends and receives by."""

    def __init__(self, reader: BinaryIO, writer: BinaryIO) -> None:
        self._reader = reader
        self._writer = writer
        # On daemon threads: neither a read that never returns nor a full pipe holds up the exit.
        self._reading = DaemonPool("acp input", workers=1, backlog=1)
        self._writing = DaemonPool("acp output", workers=1, backlog=1)
        self._turn_to_write = asyncio.Lock()  # one line at a time

    async def send(self, message: dict[str, Any]) -> None:
        """Write one message; `ConnectionError` when nobody reads it."""
        line = json.dumps(_in_words(message), default=str).encode() + b"\n"
        async with self._turn_to_write:
            try:
                await off_loop(self._writing, self._write, line)
            except (OSError, ValueError) as cause:
                raise ConnectionError("the editor has gone") from cause

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None when the editor has gone."""
        while True:
            try:
                line = await off_loop(self._reading, self._read_line)
            except (OSError, ValueError):
                return None
            if line is None:
                await self._refuse(
                    PARSE_ERROR, f"a line has more than {MAX_LINE_BYTES:,} bytes; it was skipped"
                )
                continue
            if not line:
                return None
            if not line.strip():
                continue
            try:
                message = json.loads(line)
            except (ValueError, RecursionError) as cause:
                await self._refuse(PARSE_ERROR, f"this line is not JSON: {cause}")
                continue
            if _is_message(message):
                return cast("dict[str, Any]", message)
            await self._refuse(INVALID_REQUEST, "this is no message of JSON-RPC 2.0; send one object a line")

    async def close(self) -> None:
        self._reading.close(0)
        self._writing.close(0)

    async def _refuse(self, code: int, why: str) -> None:
        await self.send({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": why}})

    def _write(self, line: bytes) -> None:
        self._writer.write(line)
        self._writer.flush()

    def _read_line(self) -> bytes | None:
        """A line; empty at the end, None for one that is too long."""
        line = self._reader.readline(MAX_LINE_BYTES)
        if len(line) < MAX_LINE_BYTES or line.endswith(b"\n"):
            return line
        while rest := self._reader.readline(MAX_LINE_BYTES):
            if rest.endswith(b"\n"):
                break
        return None


def take_over_stdio() -> tuple[BinaryIO, BinaryIO]:
    """Standard input and output for the protocol alone; everybody else gets nothing and standard error."""
    reader = os.fdopen(os.dup(STDIN), "rb")
    writer = os.fdopen(os.dup(STDOUT), "wb")
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), STDIN)
    os.dup2(STDERR, STDOUT)
    return reader, writer


def _is_message(message: object) -> bool:
    if not isinstance(message, dict):
        return False
    named = isinstance(message.get("id"), str | int | None) and isinstance(message.get("method"), str | None)
    return named and ("method" in message or "id" in message)


def _in_words(message: dict[str, Any]) -> dict[str, Any]:
    """The message; of parameters that don't fit the protocol, what is wrong with each in one sentence."""
    error = message.get("error")
    if not isinstance(error, dict) or error.get("code") != INVALID_PARAMS:
        return message
    found = (error.get("data") or {}).get("errors") if isinstance(error.get("data"), dict) else None
    if not found:
        return message
    wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found[:5])
    text = f"the parameters do not fit the protocol: {wrong}. Nothing was done."
    return {**message, "error": {"code": INVALID_PARAMS, "message": text}}
