"""Real servers (`holdfast web`) for the long run: killed, paused and started again, on one store.

The model that they ask is served here: it repeats the last message word by word, and calls a tool first when
the message says so (`look` changes nothing, `write` does).
"""

import asyncio
import json
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx2

from holdfast.testing.http_server import HttpAnswer, HttpRequest, LoopbackServer

MAIN = "from holdfast.cli.main import main; main()"
TOKEN = "a-token-of-the-soak"  # noqa: S105 - of servers that live for one run
READY_WITHIN = 120.0
BETWEEN_WORDS = 0.05
TOOLS = {
    "look": ("read_file", {"path": "notes.txt"}),
    "write": ("write_file", {"path": "w.txt", "content": "w"}),
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def a_model(words: int = 12) -> AsyncIterator[str]:
    """The address of the model server, which repeats so many words."""
    async with LoopbackServer(partial(answer_as_model, words)) as server:
        yield f"{server.url}/v1"


async def answer_as_model(words: int, request: HttpRequest, answer: HttpAnswer) -> None:
    """One answer of the model, which repeats so many words of the last message."""
    if request.path == "/v1/models":
        listed = {
            "id": "soak",
            "object": "model",
            "created": 0,
            "owned_by": "soak",
            "context_length": 128_000,
        }
        await answer.reply(200, {"object": "list", "data": [listed]})
        return
    last = request.json()["messages"][-1]
    content = last["content"]
    said = content if isinstance(content, str) else content[-1].get("text", "")
    said = said.rpartition("\n\n")[2]  # behind what memory recalled
    word = said.split()[0] if said.split() else ""
    await answer.start({"content-type": "text/event-stream"})
    if last["role"] == "user" and word in TOOLS:
        name, arguments = TOOLS[word]
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"index": 0, "id": f"call_{os.urandom(6).hex()}", "type": "function", "function": function}
        await _send(answer, {"tool_calls": [call]})
        await _send(answer, {}, "tool_calls")
    else:
        for piece in said.split()[:words] or ["(nothing)"]:
            await _send(answer, {"content": f"{piece} "})
            await asyncio.sleep(BETWEEN_WORDS)
        await _send(answer, {}, "stop")
    await answer.send(b"data: [DONE]\n\n")
    await answer.end()


async def _send(answer: HttpAnswer, delta: dict[str, Any], reason: str | None = None) -> None:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "soak", "choices": [choice]}
    await answer.send(f"data: {json.dumps(chunk)}\n\n".encode())


def environment(home: Path, store_url: str, model_url: str) -> dict[str, str]:
    """The variables of a server with a home of its own, and the settings that users get."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    folders = ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")
    return {
        **known,
        **{name: str(home) for name in folders},
        "HOLDFAST_STORE_URL": store_url,
        "HOLDFAST_TOOLS_WORKSPACE": str(home / "work"),
        "HOLDFAST_MODEL_PROVIDER": "openai",
        "HOLDFAST_MODEL_NAME": "soak",
        "HOLDFAST_MODEL_BASE_URL": model_url,
        "HOLDFAST_MODEL_API_KEY": "a-key-of-the-soak",
        "HOLDFAST_WEB_TOKEN": TOKEN,
        "HOLDFAST_WEB_REQUESTS_PER_S": "100000",
    }


def make_workspace(home: Path) -> Path:
    """The folder in which tools work, with what `look` reads."""
    folder = home / "work"
    folder.mkdir(exist_ok=True)
    (folder / "notes.txt").write_text("notes\n", encoding="utf-8")
    return folder


class Server:
    """One server that is started again whenever it is killed, always on the same port."""

    def __init__(self, home: Path, store_url: str, model_url: str) -> None:
        self._home = home
        self.port = free_port()
        self._environment = environment(home, store_url, model_url)
        self._process: asyncio.subprocess.Process | None = None
        self.http = httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{self.port}",
            headers={"Authorization": f"Bearer {TOKEN}"},
            timeout=10.0,
        )

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("a server that was never started has no process")
        return self._process.pid

    async def start(self) -> None:
        """Start it, and wait until it answers."""
        workspace = make_workspace(self._home)
        with (self._home / f"server-{self.port}.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", MAIN, "web", "--port", str(self.port)),
                stdout=asyncio.subprocess.DEVNULL,
                stderr=log,
                env=self._environment,
                cwd=workspace,
            )
        async with asyncio.timeout(READY_WITHIN):
            while not await self._answers():
                if self._process.returncode is not None:
                    raise RuntimeError(f"the server ended with {self._process.returncode}; see {log.name}")
                await asyncio.sleep(0.05)

    async def kill(self) -> None:
        """SIGKILL, and start again."""
        await self.end()
        await self.start()

    async def restart(self) -> float:
        """SIGTERM, as a service manager does, and start again; returns how long it took to end."""
        process, began = self._process, time.monotonic()
        if process is None or process.returncode is not None:
            raise RuntimeError("a server that does not run can't be restarted")
        process.send_signal(signal.SIGTERM)
        await process.wait()
        ended = time.monotonic() - began
        await self.start()
        return ended

    async def pause(self, seconds: float) -> None:
        """SIGSTOP, and go on after a while."""
        process = self._process
        if process is None or process.returncode is not None:
            raise RuntimeError("a server that does not run can't be paused")
        process.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            process.send_signal(signal.SIGCONT)

    async def end(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    async def _answers(self) -> bool:
        try:
            return (await self.http.get("/healthz", timeout=2.0)).status_code == 200
        except httpx2.HTTPError:
            return False
