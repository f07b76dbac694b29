"""The process that loads and runs a GGUF file. `runtime.py` starts it and exchanges lines of JSON with it.

It runs as a script and imports nothing of Holdfast. Standard input has first the specification to load, then
requests and cancellations. Standard output has `ready` or `failed`, then chunks. Standard input ends when the
program that started this process ends, and then this process ends too.
"""

import json
import os
import queue
import secrets
import shutil
import sys
import threading
from typing import Any, BinaryIO


class RequestReader:
    """Reads requests from the program, on a separate thread."""

    def __init__(self, lines: BinaryIO, folder: str) -> None:
        self._lines = lines
        self._folder = folder
        # The program sends the next request when this one is done, so the queue holds one at most.
        self._requests: queue.Queue[dict[str, Any]] = queue.Queue()
        self._cancelled = 0

    def read(self) -> None:
        """Read lines until the program ends."""
        for line in self._lines:
            message = json.loads(line)
            if "cancel" in message:
                self._cancelled = message["cancel"]
            else:
                self._requests.put(message)
        shutil.rmtree(self._folder, ignore_errors=True)
        os._exit(0)  # at once, whatever the runtime does

    def next(self) -> dict[str, Any]:
        return self._requests.get()

    def is_cancelled(self, request: int) -> bool:
        return self._cancelled >= request  # they are numbered upwards


class ResponseWriter:
    """Writes lines to the program."""

    def __init__(self, lines: BinaryIO) -> None:
        self._lines = lines

    def put(self, message: dict[str, Any]) -> None:
        self._lines.write(json.dumps(message).encode() + b"\n")
        self._lines.flush()


def load(spec: dict[str, Any]) -> Any:  # noqa: ANN401 - the runtime has no types
    """Load the file and return the runtime; raises the runtime's errors."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = spec["file"]
    params.n_ctx = spec["context"]
    params.n_parallel = 1
    # The runtime notices a cancellation only between batches, so batches are short.
    params.n_batch = params.n_ubatch = spec["batch"]
    for threads in (params.cpuparams, params.cpuparams_batch):
        threads.n_threads = spec["threads"]
    params.offline = True
    params.verbosity = 1
    params.prefill_assistant = False
    params.cache_ram_mib = 0
    # The runtime always opens an HTTP server: it gets an unreachable socket and a random key.
    params.hostnames = [os.path.join(spec["folder"], "s.sock")]  # noqa: PTH118 - imports little
    params.api_keys = [secrets.token_hex(32)]
    params.cors_origins = ""
    params.n_threads_http = 1
    params.ui = params.endpoint_slots = False
    try:
        return xllamacpp.Server(params)
    finally:
        shutil.rmtree(spec["folder"], ignore_errors=True)  # this removes the path of the socket


def answer(server: Any, request: dict[str, Any], requests: RequestReader, responses: ResponseWriter) -> None:  # noqa: ANN401
    """Stream one answer; a callback that returns True ends the generation."""
    number = request["id"]

    def take(chunk: dict[str, Any]) -> bool:
        if requests.is_cancelled(number):
            return True
        responses.put({"id": number, "chunk": chunk})
        return False

    try:
        server.handle_chat_completions(request["body"], take)
    except Exception as failure:  # noqa: BLE001 - the program names it
        responses.put({"id": number, "refused": str(failure)})
    responses.put({"id": number, "end": True})


def main() -> None:
    """Load the file that the first line names, then answer requests until the program ends."""
    # The runtime may print to standard output, so lines for the program use a separate descriptor.
    responses = ResponseWriter(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)
    lines = sys.stdin.buffer
    spec = json.loads(lines.readline())
    sys.path[:] = spec["path"]
    requests = RequestReader(lines, spec["folder"])
    threading.Thread(target=requests.read, name="requests", daemon=True).start()
    try:
        server = load(spec)
    except Exception as failure:  # noqa: BLE001 - the program names it
        responses.put({"failed": str(failure)})
        os._exit(1)
    responses.put({"ready": True})
    while True:
        answer(server, requests.next(), requests, responses)


if __name__ == "__main__":
    main()
