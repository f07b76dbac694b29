"""The real servers, started as a person would start them, on loopback and on the scripted model.

Each runs in a process group of its own under a guard that ends it when this process is gone.
"""

import json
import os
import signal
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any

import httpx2

from tools.backends import program

START_SECONDS = 180
STOP_SECONDS = 60
KEY = "the right key"
GUARD = """
exec 3<&0
"$@" < /dev/null &
server=$!
{ cat <&3 > /dev/null; kill -KILL $server; } 2> /dev/null &
trap 'kill -TERM $server' TERM
while kill -0 $server 2> /dev/null; do wait $server; done
kill -KILL $! 2> /dev/null
"""


class ServerMissing(Exception):
    """A server is not installed. The tests fail; they are not skipped."""


class RealServer:
    """One server with its port; it may be killed and started again any number of times."""

    def __init__(self, name: str, folder: Path) -> None:
        found = program(name)
        if found is None:
            raise ServerMissing(f"the {name} server is not installed; `make test-backends` does it")
        self.name = name
        self.folder = folder
        self.port = free_port()
        self._program = found
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        return [str(self._program)]

    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "SSL_CERT_FILE") if name in os.environ}
        return {**kept, "HOME": str(self.folder), "TMPDIR": str(self.folder)}

    def start(self) -> None:
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", GUARD, "guard", *self.command()],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=self.environment(),
                start_new_session=True,
            )
        self._await()

    def kill(self) -> None:
        """As by the machine: at once, with everything it had under way."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """As by a person; whoever doesn't end in time is killed."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        os.killpg(process.pid, how)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.stdin is not None:
            process.stdin.close()

    def _await(self) -> None:
        tick = threading.Event()
        for _ in range(START_SECONDS * 4):
            assert self._process is not None
            if self._process.poll() is not None:
                break
            try:
                if httpx2.get(f"{self.url}/health", timeout=5).is_success:
                    return
            except httpx2.HTTPError:
                pass
            tick.wait(0.25)
        log = (self.folder / "server.log").read_text(errors="replace")[-4000:]
        self.kill()
        raise AssertionError(f"the {self.name} server did not start:\n{log}")


class HindsightServer(RealServer):
    """Hindsight 1.1.0 on a PostgreSQL of the tests; wants a key."""

    def __init__(self, folder: Path, database: str, model: str) -> None:
        super().__init__("hindsight", folder)
        self.key = KEY
        self._told = {
            "HINDSIGHT_API_DATABASE_URL": database,
            "HINDSIGHT_API_HOST": "127.0.0.1",
            "HINDSIGHT_API_LLM_PROVIDER": "openai",
            "HINDSIGHT_API_LLM_BASE_URL": model,
            "HINDSIGHT_API_LLM_API_KEY": "none",
            "HINDSIGHT_API_LLM_MODEL": "rules",
            "HINDSIGHT_API_LLM_MAX_RETRIES": "0",
            "HINDSIGHT_API_WORKER_MAX_RETRIES": "0",
            "HINDSIGHT_API_EMBEDDINGS_PROVIDER": "openai",
            "HINDSIGHT_API_EMBEDDINGS_OPENAI_BASE_URL": model,
            "HINDSIGHT_API_EMBEDDINGS_OPENAI_API_KEY": "none",
            "HINDSIGHT_API_EMBEDDINGS_OPENAI_MODEL": "rules",
            "HINDSIGHT_API_RERANKER_PROVIDER": "rrf",
            "HINDSIGHT_API_ENABLE_OBSERVATIONS": "false",
            "HINDSIGHT_API_WORKER_ID": "tests",
            "HINDSIGHT_API_WORKER_POLL_INTERVAL_MS": "50",
            "HINDSIGHT_API_TENANT_EXTENSION": "hindsight_api.extensions.builtin.tenant:ApiKeyTenantExtension",
            "HINDSIGHT_API_TENANT_API_KEY": KEY,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "HF_HUB_OFFLINE": "1",
        }

    def environment(self) -> dict[str, str]:
        return {**super().environment(), **self._told, "HINDSIGHT_API_PORT": str(self.port)}

    def document(self, bank: str, document: str) -> str:
        """The whole text of a document, as the server has it."""
        path = f"{self.url}/v1/default/banks/{bank}/documents/{document}"
        answer = httpx2.get(path, headers={"Authorization": f"Bearer {KEY}"}, timeout=30)
        return str(answer.json()["original_text"]) if answer.is_success else ""


class OpenVikingServer(RealServer):
    """OpenViking 0.5.2 on a folder of the tests, with an account of its own."""

    def __init__(self, folder: Path, model: str) -> None:
        super().__init__("openviking", folder)
        self.key = ""
        there = {"provider": "openai", "api_base": model, "api_key": "none", "model": "rules"}
        self._config = folder / "ov.conf"
        self._config.write_text(
            json.dumps(
                {
                    "server": {"host": "127.0.0.1", "port": self.port, "root_api_key": "root"},
                    "storage": {"workspace": str(folder / "workspace")},
                    "embedding": {"dense": {**there, "dimension": 384}},
                    "vlm": there,
                }
            )
        )

    def command(self) -> list[str]:
        return [*super().command(), "--config", str(self._config)]

    def start(self) -> None:
        super().start()
        if not self.key:
            wanted = {"account_id": "tests", "admin_user_id": "tester"}
            made = self.ask("POST", "/admin/accounts", key="root", json=wanted)
            self.key = str(made["user_key"])

    def ask(self, method: str, path: str, key: str = "", **body: Any) -> Any:  # noqa: ANN401 - JSON
        answer = httpx2.request(
            method, f"{self.url}/api/v1{path}", headers={"X-API-Key": key or self.key}, timeout=60, **body
        )
        assert answer.is_success, answer.text
        return answer.json()["result"]

    def live(self, session: str) -> list[str]:
        """What waits in a session, in order."""
        found = self.ask("GET", f"/sessions/{session}/context?token_budget=1000000")
        return [part["text"] for message in found["messages"] for part in message["parts"]]

    def memories(self) -> list[str]:
        """The facts that were extracted, each as often as it is kept."""
        asked = {
            "query": "fact turn",
            "limit": 100,
            "context_type": "memory",
            "level": 2,
            "read_content": True,
        }
        found = self.ask("POST", "/search/find", json=asked)
        return [str(each["content"]).removeprefix("# Fact\n").strip() for each in found["memories"]]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
