"""A model server for the benchmark of the web surface: every request is answered with 100 tokens in 2 s.

`python -m bench.web_model [SECONDS]` prints its port. It does as little as can be for each token, so that
what is measured is the surface in front of it.
"""

import asyncio
import json
import sys
from functools import partial

TOKENS = 100
SECONDS = 2.0
NAME = "paced"
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def frame(content: bytes) -> bytes:
    """One chunk of a chunked body."""
    return f"{len(content):x}\r\n".encode() + content + b"\r\n"


def event(**content: object) -> bytes:
    whole = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": NAME, **content}
    return frame(b"data: " + json.dumps(whole).encode() + b"\n\n")


def choice(delta: dict[str, str], reason: str | None = None) -> list[dict[str, object]]:
    return [{"index": 0, "delta": delta, "finish_reason": reason}]


PIECES = [event(choices=choice({"content": f"word{number} "})) for number in range(TOKENS)]
END = (
    event(choices=choice({}, "stop"))
    + event(choices=[], usage={"prompt_tokens": 10, "completion_tokens": TOKENS, "total_tokens": 110})
    + frame(b"data: [DONE]\n\n")
    + b"0\r\n\r\n"
)
MODELS = json.dumps({"object": "list", "data": [{"id": NAME, "object": "model", "context_length": 128_000}]})


async def answer(writer: asyncio.StreamWriter, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    writer.write(HEAD)
    for number, piece in enumerate(PIECES, 1):
        await asyncio.sleep(max(0.0, begun + seconds * number / TOKENS - loop.time()))
        writer.write(piece)
    writer.write(END)


async def serve(seconds: float, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            lowered = head.lower()
            if b"content-length:" in lowered:
                await reader.readexactly(int(lowered.partition(b"content-length:")[2].split()[0]))
            if lowered.startswith(b"get "):
                said = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(MODELS)}"
                writer.write(f"{said}\r\n\r\n{MODELS}".encode())
            else:
                await answer(writer, seconds)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main(seconds: float) -> None:
    server = await asyncio.start_server(partial(serve, seconds), "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    try:
        asyncio.run(main(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS))
    except KeyboardInterrupt:
        sys.exit(0)
