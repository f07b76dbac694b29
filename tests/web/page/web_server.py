"""`WebServer`: the real `holdfast web` as a process, with its own folders, over a model that a test plays."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Self

from holdfast import SessionDB
from tests.cli.real_terminal import COMMAND

PATIENCE = 90


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class WebServer:
    """One person's Holdfast. It can be killed and started again at the same address."""

    def __init__(self, folder: Path, model_url: str, **settings: str) -> None:
        self.folder = folder
        self.project = folder / "project"
        """Where the server is started, and so the workspace."""
        self.project.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.link = ""
        self._model_url = model_url
        self._settings = settings
        self.unset: list[str] = []
        """Variables that it is started without."""
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    @property
    def database(self) -> Path:
        return self.folder / "data" / "holdfast.db"

    def store(self) -> SessionDB:
        return SessionDB(self.database)

    def set_file(self, text: str) -> None:
        """Write the person's settings file."""
        file = self.folder / "config" / "holdfast" / "settings.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o600)

    def start(self) -> Self:
        log = (self.folder / "server.log").open("a")
        self._process = subprocess.Popen(
            [sys.executable, *COMMAND, "web", "--port", str(self.port)],
            env=self._environment(),
            cwd=self.project,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        log.close()
        assert self._process.stdout is not None
        self.link = self._process.stdout.readline().strip()
        assert self.link.startswith(self.url), (self.folder / "server.log").read_text()
        return self

    def more_links(self, count: int = 1) -> list[str]:
        """The links that were printed after the first one."""
        assert self._process is not None
        assert self._process.stdout is not None
        return [self._process.stdout.readline().strip() for _ in range(count)]

    def kill(self) -> None:
        """As a crash: no clean-up at all."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def _environment(self) -> dict[str, str]:
        dropped = ("HOLDFAST_", "OPENAI_", "ANTHROPIC_", "XDG_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        folders = {
            f"XDG_{kind}_HOME": str(self.folder / kind.lower()) for kind in ("DATA", "CONFIG", "STATE")
        }
        variables = {
            **kept,
            **folders,
            "HOME": str(self.folder),
            "HOLDFAST_STORE_URL": f"sqlite:///{self.database}",
            "HOLDFAST_MODEL_PROVIDER": "openai",
            "HOLDFAST_HOST_TITLES": "false",  # the model's answers are given out turn by turn
            "HOLDFAST_MODEL_BASE_URL": self._model_url,
            "HOLDFAST_MODEL_API_KEY": "unused",
            "HOLDFAST_MODEL_NAME": "gated",
            "HOLDFAST_MODEL_CONTEXT_WINDOW": "128000",
            "HOLDFAST_MODEL_ATTEMPTS": "1",
            "HOLDFAST_TOOLS_WORKSPACE": str(self.project),
            "HOLDFAST_EXIT_WATCHDOG_S": "15",
            **self._settings,
        }
        return {name: value for name, value in variables.items() if name not in self.unset}
