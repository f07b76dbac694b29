"""`json_worker`: runs one of our files in a process of its own, which answers with lines of JSON.

For work that Python can't stop (a regular expression, a hostile document): a process can be killed.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from holdfast.core.errors import ToolFailed
from holdfast.process import with_original_limit


@asynccontextmanager
async def json_worker(
    file: str, given: bytes, longest_line: int
) -> AsyncGenerator[AsyncIterator[dict[str, Any]], None]:
    """What a worker says, line by line, while it reads `given`. It is killed at the end of the block."""
    worker = await asyncio.create_subprocess_exec(
        *with_original_limit((sys.executable, "-I", "-X", "utf8", file)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
        start_new_session=True,
        limit=longest_line,
    )
    if worker.stdin is None or worker.stdout is None:
        raise ToolFailed("a worker has no pipes")
    sending = asyncio.create_task(_send(worker.stdin, given))
    try:
        yield _lines(worker.stdout)
    finally:
        sending.cancel()
        with contextlib.suppress(ProcessLookupError):
            worker.kill()
        await worker.wait()


async def _send(pipe: asyncio.StreamWriter, data: bytes) -> None:
    with contextlib.suppress(ConnectionError):
        pipe.write(data)
        await pipe.drain()
        pipe.close()


async def _lines(answers: asyncio.StreamReader) -> AsyncIterator[dict[str, Any]]:
    async for line in answers:
        yield json.loads(line)
