"""Connections to a model's server when few files and sockets may still be opened."""

from contextlib import closing

import pytest

from tests.process.child_process import Child

# The descriptors from 160 on are the reserve; those from 208 on are its second half.
FILLED = """
import asyncio, os, resource, ssl
import httpx2
from holdfast.models.stream_transport import StreamTransport

resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
served = []

async def serve(reader, writer):
    served.append(asyncio.current_task())
    try:
        while await reader.readuntil(b"\\r\\n\\r\\n"):
            writer.write(b"HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\nhi")
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()

async def main():
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        transport = StreamTransport(ssl.create_default_context())
        while os.open(os.devnull, os.O_RDONLY) < {filled}:
            pass
        async with httpx2.AsyncClient(transport=transport) as client:
            for _ in range(3):
                try:
                    said = (await client.get(f"http://127.0.0.1:{{port}}/")).text
                except httpx2.ConnectError as cause:
                    said = str(cause)
                print(said)
        while len(served) < {connections}:
            await asyncio.sleep(0.001)
        await asyncio.gather(*served)
    print(len(served))

asyncio.run(main())
"""
REFUSED = "too many files and sockets are open for another connection"


@pytest.mark.clause("X5")
@pytest.mark.parametrize(
    ("filled", "said", "connections"),
    [
        pytest.param(100, "hi", 1, id="kept"),
        pytest.param(170, "hi", 3, id="used once in the first half of the reserve"),
        pytest.param(220, REFUSED, 3, id="refused in the second half"),
    ],
)
def test_a_connection_to_a_model_leaves_the_last_files_to_the_store_and_to_tools(
    filled: int, said: str, connections: int
) -> None:
    with closing(Child(FILLED.format(filled=filled, connections=connections))) as child:
        code, printed, complaints = child.end()
    assert (code, complaints) == (0, "")
    assert printed.splitlines() == [said, said, said, str(connections)]
