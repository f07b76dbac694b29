"""A real `holdfast gateway` in a process of its own, set up by the commands that a person types."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

CONNECTED = b"is connected as"
WAITS = b"another process serves this account"
READY_WITHIN = 120.0
ON_HOST = "import socket; socket.gethostname = lambda: {!r}; from holdfast.cli.main import main; main()"
FOLDERS = ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")


class GatewayProcess:
    """One gateway that is killed and started again with the same settings."""

    def __init__(self, home: Path, store_url: str, model_url: str, *, host: str = "") -> None:
        """`host` is the name of the machine that it believes to run on; by default this one's."""
        home.mkdir(exist_ok=True)
        program = ["-c", ON_HOST.format(host)] if host else ["-m", "holdfast"]
        self._program = [sys.executable, *program]
        self._work = home / "work"
        self._work.mkdir(exist_ok=True)
        self.log = home / "gateway.log"
        known = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        self._environment = {
            **known,
            **{name: str(home) for name in FOLDERS},
            "HOLDFAST_STORE_URL": store_url,
            "HOLDFAST_TOOLS_WORKSPACE": str(self._work),
            "HOLDFAST_MODEL_PROVIDER": "openai",
            "HOLDFAST_MODEL_NAME": "answers",
            "HOLDFAST_MODEL_BASE_URL": model_url,
            "HOLDFAST_MODEL_API_KEY": "a-key-of-the-tests",
        }
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self.connected = asyncio.Event()
        """Set once the account has caught up."""
        self.waits = asyncio.Event()
        """Set once it has found that another process serves the account."""

    async def command(self, *words: str) -> str:
        """Run `holdfast` with these words to its end; returns what it printed."""
        process = await asyncio.create_subprocess_exec(
            *(*self._program, *words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self._environment,
            cwd=self._work,
        )
        said, _ = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"holdfast {words[0]} ended with {process.returncode}: {said.decode()}")
        return said.decode()

    async def set_up(self, platform: str, values: Mapping[str, str], owner: str) -> None:
        """`holdfast gateway setup`, with this person as owner; it signs in when it starts."""
        given = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
        await self.command("gateway", "setup", platform, *given, "--no-check", "--owner", owner)

    async def start(self) -> None:
        """Start it; `connected` says when it serves."""
        self.connected.clear()
        self._process = await asyncio.create_subprocess_exec(
            *(*self._program, "gateway"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment,
            cwd=self._work,
        )
        self._reading = asyncio.create_task(self._read(self._process))

    async def start_and_connect(self) -> None:
        await self.start()
        async with asyncio.timeout(READY_WITHIN):
            await self.connected.wait()

    async def kill(self) -> None:
        """SIGKILL, and wait for its end."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        if self._reading is not None:
            await self._reading

    def stand_still(self) -> None:
        """SIGSTOP: as a machine that sleeps, or is too busy, stands still."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def said(self) -> str:
        """What it has said so far, in all its lives."""
        return self.log.read_text(encoding="utf-8") if self.log.exists() else ""

    def troubles(self) -> list[str]:
        """The lines of the log that tell of a fault."""
        return [line for line in self.said.splitlines() if re.search(r"Traceback|^\w*Error\b", line)]

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        with self.log.open("ab") as log:
            while line := await process.stderr.readline():
                log.write(line)
                log.flush()
                if CONNECTED in line:
                    self.connected.set()
                elif WAITS in line:
                    self.waits.set()
