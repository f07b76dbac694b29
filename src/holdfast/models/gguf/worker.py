"""The process in which a GGUF file is loaded and run; `runtime.py` starts it and speaks with it.

It is run as a script and imports nothing of Holdfast. Lines of JSON come in on standard input: first what to
load, then requests and cancellations. Lines go out on standard output: `ready` or `failed`, then chunks.
The end of standard input is the end of the program that started it, and so the end of this one.
"""

import json
import os
import queue
import secrets
import shutil
import sys
import threading
from typing import Any, BinaryIO


class Inbox:
    """What the program asks for, read on a thread of its own."""

    def __init__(self, lines: BinaryIO, folder: str) -> None:
        self._lines = lines
        self._folder = folder
        # The program sends the next request when this one is done, so at most one waits here.
        self._requests: queue.Queue[dict[str, Any]] = queue.Queue()
        self._cancelled = 0

    def read(self) -> None:
        """Take in lines until the program is gone."""
        for line in self._lines:
            message = json.loads(line)
            if "cancel" in message:
                self._cancelled = message["cancel"]
            else:
                self._requests.put(message)
        shutil.rmtree(self._folder, ignore_errors=True)
        os._exit(0)  # whatever the runtime is in the middle of

    def next(self) -> dict[str, Any]:
        return self._requests.get()

    def is_cancelled(self, request: int) -> bool:
        return self._cancelled >= request  # they are numbered upwards


class Outbox:
    """Lines back to the program."""

    def __init__(self, lines: BinaryIO) -> None:
        self._lines = lines

    def put(self, message: dict[str, Any]) -> None:
        self._lines.write(json.dumps(message).encode() + b"\n")
        self._lines.flush()


def load(spec: dict[str, Any]) -> Any:  # noqa: ANN401 - the runtime has no types
    """The runtime with the file loaded; raises what the runtime raises."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = spec["file"]
    params.n_ctx = spec["context"]
    params.n_parallel = 1
    # A cancellation is heard between batches, so a batch is short.
    params.n_batch = params.n_ubatch = spec["batch"]
    for threads in (params.cpuparams, params.cpuparams_batch):
        threads.n_threads = spec["threads"]
    params.offline = True
    params.verbosity = 1
    params.prefill_assistant = False
    params.cache_ram_mib = 0
    # The runtime insists on an HTTP server: it gets a socket that nobody can reach, and a key nobody knows.
    params.hostnames = [os.path.join(spec["folder"], "s.sock")]  # noqa: PTH118 - imports little
    params.api_keys = [secrets.token_hex(32)]
    params.cors_origins = ""
    params.n_threads_http = 1
    params.ui = params.endpoint_slots = False
    try:
        return xllamacpp.Server(params)
    finally:
        shutil.rmtree(spec["folder"], ignore_errors=True)  # the socket has no name any more


def answer(server: Any, request: dict[str, Any], inbox: Inbox, outbox: Outbox) -> None:  # noqa: ANN401
    """Stream one answer; a callback that returns True ends the generation."""
    number = request["id"]

    def take(chunk: dict[str, Any]) -> bool:
        if inbox.is_cancelled(number):
            return True
        outbox.put({"id": number, "chunk": chunk})
        return False

    try:
        server.handle_chat_completions(request["body"], take)
    except Exception as failure:  # noqa: BLE001 - the program names it
        outbox.put({"id": number, "refused": str(failure)})
    outbox.put({"id": number, "end": True})


def main() -> None:
    """Load what the first line names, then answer until the program is gone."""
    # The runtime prints where it likes; lines for the program go through a descriptor of their own.
    outbox = Outbox(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)
    lines = sys.stdin.buffer
    spec = json.loads(lines.readline())
    sys.path[:] = spec["path"]
    inbox = Inbox(lines, spec["folder"])
    threading.Thread(target=inbox.read, name="inbox", daemon=True).start()
    try:
        server = load(spec)
    except Exception as failure:  # noqa: BLE001 - the program names it
        outbox.put({"failed": str(failure)})
        os._exit(1)
    outbox.put({"ready": True})
    while True:
        answer(server, inbox.next(), inbox, outbox)


if __name__ == "__main__":
    main()
