"""A server in a process of its own: `python -m tests.web.api.server_process FOLDER PORT`.

It prints the port on which it listens. Its model counts, a number every 10 ms, from 0 to 399.
"""

import asyncio
import sys
from pathlib import Path

from holdfast.core.secret import Secret
from holdfast.core.settings import WebSettings
from holdfast.process.http_server import listen
from holdfast.sessions import SessionDB
from holdfast.testing import Delay
from holdfast.web import WebParts
from holdfast.web.server import run_server
from holdfast.web.streams import OpenStreams
from tests.host.host_fixtures import a_host
from tests.web.api.api_server import TOKEN

COUNT = 400
ANSWER = [part for number in range(COUNT) for part in (f"{number} ", Delay(0.01))]


async def main(folder: str, port: str) -> None:
    db = SessionDB.open(f"sqlite:///{Path(folder) / 'holdfast.db'}", lease_seconds=2.0)
    async with a_host(db, [ANSWER] * 10) as host:
        settings = WebSettings()
        listening = listen("127.0.0.1", int(port))
        async with run_server(WebParts(host, settings, Secret(TOKEN), OpenStreams(10)), listening) as running:
            print(listening.getsockname()[1], flush=True)  # noqa: T201 - whoever started it reads this
            await running


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
