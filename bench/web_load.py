"""N chats at once, as lean as a client can be: it prints what each saw.

python -m bench.web_load WAY PORT N [AT]

`direct` asks the model server, `v1` asks Holdfast in the same words, `api` begins a session with a message
and reads its events, as the page does. Each line: seconds to the first text, to the end, the tokens, and when
it began. `AT` is when all begin, by the clock that all processes of this machine share.
"""

import asyncio
import json
import sys
import time
from secrets import token_hex

TOKEN = "bench"  # noqa: S105 - of a server that lives for a benchmark
BODY = {"model": "paced", "stream": True, "messages": [{"role": "user", "content": "Count to a hundred."}]}
ENDED = (b"event: TurnCompleted", b"[DONE]")
FAILED = (b"event: TurnFailed", b"event: TurnInterrupted", b"event: SessionTrouble")


class Chat:
    """One conversation."""

    def __init__(self, way: str, port: int) -> None:
        self._way = way
        self._port = port
        self._begun = time.perf_counter()

    async def run(self) -> tuple[float, float, int, float]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        if self._way == "api":
            message = {"text": "Count to a hundred.", "key": token_hex(8)}
            writer.write(head("/api/sessions", {"message": message}, "text/event-stream"))
        else:
            writer.write(head("/v1/chat/completions", BODY, "*/*"))
        return *await self._stream(reader, writer), self._begun

    async def _stream(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[float, float, int]:
        first, words = 0.0, 0
        tail = seen = b""
        while chunk := await reader.read(65536):
            seen = tail + chunk
            if not first and b"word0" in seen:
                first = time.perf_counter() - self._begun
            words += seen.count(b"word") - tail.count(b"word")
            tail = seen[-40:]
            if any(mark in seen for mark in ENDED):
                writer.close()
                return first, time.perf_counter() - self._begun, words
            if any(mark in seen for mark in FAILED):
                break
        raise RuntimeError(f"the answer ended too soon: {seen[-400:]!r}")


def head(path: str, body: object, accept: str) -> bytes:
    content = json.dumps(body).encode()
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        f"Accept: {accept}",
        f"Authorization: Bearer {TOKEN}",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


async def main(way: str, port: int, chats: int, at: float = 0.0) -> None:
    await asyncio.sleep(max(0.0, at - time.perf_counter()))
    for first, whole, words, begun in await asyncio.gather(*(Chat(way, port).run() for _ in range(chats))):
        print(f"{first:.4f} {whole:.4f} {words} {begun:.4f}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *map(float, sys.argv[4:])))
