"""The Hindsight server that Holdfast starts and stops itself, on loopback.

One server serves all processes of a data folder: the process with the file lock runs it, and the others find
its address in a file beside the lock. The server ends with the process that started it, even when that is
killed: a guard process stops it when the other end of its input pipe is closed.
"""

import contextlib
import fcntl
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from holdfast.core.errors import InvalidInput, MemoryClosed, ProviderUnavailable
from holdfast.memory.config import ProviderConfig
from holdfast.process import with_original_limit

NAME = "hindsight"
INSTALL = "uv tool install 'hindsight-api-slim[embedded-db]==1.1.0'"
STOP_SECONDS = 8.0
# The guard ends with the server. When its input ends, it sends SIGTERM to the server, and SIGKILL after 6 s.
GUARD = """
exec 3<&0
"$@" < /dev/null &
server=$!
{
    cat <&3 > /dev/null
    kill -TERM $server
    for wait in 1 2 3 4 5 6 7 8 9 10 11 12; do kill -0 $server || exit; sleep 0.5; done
    kill -KILL $server
} 2> /dev/null &
wait $server
kill -KILL $!
"""
# The variables a server needs to find its home and its libraries; it gets no others.
PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "SSL_CERT_FILE", "HTTPS_PROXY", "NO_PROXY")


class LocalServer:
    """Used by one thread; another may call `stop`. `address` starts the server when no process runs it."""

    def __init__(self, config: ProviderConfig, folder: Path, environment: Mapping[str, str]) -> None:
        self._config = config
        self._folder = folder / "hindsight"
        self._environment = environment
        self._lock: IO[str] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._closed = False

    def address(self) -> str:
        """The URL of the server, which may still be starting; raises `InvalidInput` if not installed."""
        if self._guard is not None and self._guard.poll() is not None:
            self.stop()  # it ended by itself, so it is started again
        if self._guard is None and not self._closed and self._take_lock():
            try:
                self._start()
            except BaseException:
                self._release()
                raise
        if self._closed:
            self.stop()
            raise MemoryClosed(NAME)
        try:
            return str(json.loads((self._folder / "server.json").read_text(encoding="utf-8"))["url"])
        except (OSError, ValueError, KeyError) as cause:
            raise ProviderUnavailable(NAME, problem="another process is just starting its server") from cause

    def stop(self, *, for_good: bool = False) -> None:
        """Stop the server if this process runs it; with `for_good`, never start it again."""
        self._closed = self._closed or for_good
        guard, self._guard = self._guard, None
        if guard is not None:
            if guard.stdin is not None:
                with contextlib.suppress(OSError):
                    guard.stdin.close()
            try:
                guard.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                guard.kill()
                guard.wait()
        self._release()

    def log_tail(self) -> str:
        """The end of the server's log, for an error message."""
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return ""
        return " / ".join(line.strip() for line in lines[-3:] if line.strip())

    @property
    def log(self) -> Path:
        return self._folder / "server.log"

    def _take_lock(self) -> bool:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (self._folder / "server.lock").open("a")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            return False
        self._lock = lock
        return True

    def _release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            (self._folder / "server.json").unlink(missing_ok=True)
            lock.close()

    def _start(self) -> None:
        program = find_program(self._config, self._environment)
        port = _free_port()
        with self.log.open("wb") as log:
            self._guard = subprocess.Popen(  # noqa: S603 - the command is the user's own setting
                with_original_limit(["/bin/sh", "-c", GUARD, "guard", program]),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env=server_environment(self._config, self._environment, port),
                start_new_session=True,  # Ctrl-C is for the program, not for its server
            )
        (self._folder / "server.json").write_text(
            json.dumps({"url": f"http://127.0.0.1:{port}", "owner": os.getpid()}), encoding="utf-8"
        )


def find_program(config: ProviderConfig, environment: Mapping[str, str]) -> str:
    """The path of the server's program; raises `InvalidInput` with the command that installs it."""
    command = config.text("command", "hindsight-api")
    found = shutil.which(command, path=environment.get("PATH", os.defpath))
    if found is None:
        raise InvalidInput(
            f"hindsight: the program {command!r} is not installed, so no local server can be started. "
            f"Install it with: {INSTALL} (about 1.1 GB), or choose another mode"
        )
    return found


def server_environment(config: ProviderConfig, ours: Mapping[str, str], port: int) -> dict[str, str]:
    """The environment of the server, which is its only configuration."""
    kind, address = config.text("llm_provider", "openai"), config.text("llm_base_url")
    embeddings_address = config.text("embeddings_base_url")
    # The slim server has no embedding model, so without an address the model's server makes the embeddings.
    shared = kind == "openai" and not embeddings_address
    own_key = config.secret("embeddings_key")
    embeddings_key = config.secret("llm_key") if shared and not own_key else own_key
    own = {
        "HINDSIGHT_API_HOST": "127.0.0.1",
        "HINDSIGHT_API_PORT": str(port),
        "HINDSIGHT_API_DATABASE_URL": config.text("database_url", "pg0://holdfast"),
        "HINDSIGHT_API_LLM_PROVIDER": kind,
        "HINDSIGHT_API_LLM_BASE_URL": address,
        "HINDSIGHT_API_LLM_MODEL": config.text("llm_model"),
        "HINDSIGHT_API_LLM_API_KEY": config.secret("llm_key").reveal(),
        "HINDSIGHT_API_EMBEDDINGS_PROVIDER": "openai" if embeddings_address or shared else "",
        "HINDSIGHT_API_EMBEDDINGS_OPENAI_BASE_URL": address if shared else embeddings_address,
        "HINDSIGHT_API_EMBEDDINGS_OPENAI_MODEL": config.text("embeddings_model"),
        "HINDSIGHT_API_EMBEDDINGS_OPENAI_API_KEY": embeddings_key.reveal(),
        # The only reranker of the slim server, because it needs no model.
        "HINDSIGHT_API_RERANKER_PROVIDER": "rrf",
        # A worker that starts again under the same name resumes its operations.
        "HINDSIGHT_API_WORKER_ID": "holdfast",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    passed: dict[str, str] = {name: ours[name] for name in PASSED_ON if name in ours}
    return passed | {name: value for name, value in own.items() if value}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
