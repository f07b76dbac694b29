"""The nodes of the torture: real `holdfast web` and `holdfast worker` processes, each in its own namespace.

`a_world` serves the model that they ask and the memory that they deliver to, where every node reaches it.
"""

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx2

from bench.gateway_soak.model import NumberedModel, numbered
from bench.node_torture.checker import Arrival
from bench.node_torture.memory import ADDRESS, Recorder
from bench.node_torture.network import Network
from bench.soak.servers import MAIN, READY_WITHIN, TOKEN, answer_as_model, environment, make_workspace
from holdfast.testing.http_server import HttpAnswer, HttpRequest, LoopbackServer

PORT = 8484
WORDS = 12
CLIENT_SECONDS = 5.0
"""How long a client waits for an answer before it asks another node."""
WINDOW = 16_000
ROOT = Path(__file__).parents[2]


class World:
    """What is outside of the nodes: the model, and the memory of others."""

    def __init__(self) -> None:
        self._chats = NumberedModel()
        self.delivered: list[Arrival] = []
        """Each turn that was delivered to memory, in the order of their arrival."""
        self.url = ""

    async def answer(self, request: HttpRequest, answer: HttpAnswer) -> None:
        if request.path == "/v1/chat/completions" and numbered(request.json()["messages"]):
            return await self._chats.answer(request, answer)
        if request.path != "/memory":
            return await answer_as_model(WORDS, request, answer)
        said, now = request.json(), time.time()
        self.delivered += [Arrival(session, turn, said["host"], now) for session, turn in said["turns"]]
        return await answer.reply(200, {})


@asynccontextmanager
async def a_world(address: str) -> AsyncIterator[World]:
    world = World()
    async with LoopbackServer(world.answer, host=address, keep=False) as server:
        world.url = server.url
        yield world


class Node:
    """One node, which is started again whenever it is killed."""

    def __init__(self, number: int, command: str, network: Network, store_url: str, world: World) -> None:
        self.number = number
        self.command, *self._options = command.split()
        self._network = network
        self._world = world
        self._store_url = store_url
        self._process: asyncio.subprocess.Process | None = None
        self.http = httpx2.AsyncClient(
            base_url=f"http://{network.node(number)}:{PORT}",
            headers={"Authorization": f"Bearer {TOKEN}"},
            timeout=CLIENT_SECONDS,
        )
        self.log = Path()

    def live_in(self, folder: Path) -> None:
        self._home = folder / self.host_name
        self._home.mkdir()
        self.log = self._home / "log"

    def _environment(self) -> dict[str, str]:
        return {
            **environment(self._home, self._store_url, f"{self._world.url}/v1"),
            "HOLDFAST_MODEL_CONTEXT_WINDOW": str(WINDOW),
            "HOLDFAST_MEMORY_PROVIDERS": f"local,{Recorder.__module__}:{Recorder.__name__}",
            "HOLDFAST_WEB_HOST": self._network.node(self.number),
            "HOLDFAST_WEB_AUTHENTICATION": "token",
            "HOLDFAST_WEB_PORT": str(PORT),
            ADDRESS: f"{self._world.url}/memory",
            "PYTHONPATH": str(ROOT),
        }

    def _program(self) -> list[str]:
        return [*self._network.enter(self.number), sys.executable, "-c", MAIN]

    async def run_command(self, *words: str) -> None:
        """Run `holdfast` with these words, as its operator does."""
        process = await asyncio.create_subprocess_exec(
            *(*self._program(), *words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self._environment(),
            cwd=make_workspace(self._home),
        )
        said, _ = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"holdfast {' '.join(words[:2])}: {said.decode()}")

    @property
    def host_name(self) -> str:
        return self._network.host_name(self.number)

    @property
    def has_gateway(self) -> bool:
        return "--gateway" in self._options

    async def start(self) -> None:
        """Start it, and wait until it is ready."""
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(*self._program(), self.command, *self._options),
                stdout=asyncio.subprocess.PIPE if self.command == "worker" else asyncio.subprocess.DEVNULL,
                stderr=log,
                env=self._environment(),
                cwd=make_workspace(self._home),
            )
        async with asyncio.timeout(READY_WITHIN):
            while not await self._is_ready(self._process):
                if self._process.returncode is not None:
                    # As a service manager does: a node that finds no database ends, and is started again.
                    await asyncio.sleep(0.5)
                    return await self.start()
                await asyncio.sleep(0.05)
        return None

    async def _is_ready(self, process: asyncio.subprocess.Process) -> bool:
        if process.stdout is not None:
            return await process.stdout.readline() == b"ready\n"
        try:
            return (await self.http.get("/healthz", timeout=2.0)).status_code == 200
        except httpx2.HTTPError:
            return False

    async def kill(self) -> None:
        """SIGKILL, and start again."""
        await self.end()
        await self.start()

    async def pause(self, seconds: float) -> None:
        """SIGSTOP, and go on after a while."""
        self._signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            self._signal(signal.SIGCONT)

    async def cut_off(self, seconds: float) -> None:
        """No word passes between it and the database for a while."""
        self._network.cut(self.number)
        try:
            await asyncio.sleep(seconds)
        finally:
            self._network.mend(self.number)

    @property
    def has_ended(self) -> bool:
        return self._process is None or self._process.returncode is not None

    def _signal(self, which: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            if self._process is not None:
                self._process.send_signal(which)

    async def end(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._signal(signal.SIGKILL)
            await self._process.wait()

    async def close(self) -> None:
        await self.end()
        await self.http.aclose()
