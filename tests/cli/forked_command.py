"""Runs a `holdfast` command in a process that is forked from one that has imported it.

It is a process of its own, with its own environment, folder and streams; only the half second that imports
take is saved. Tests of the start itself, of terminals and of signals start the command as people do.
"""

import atexit
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import IO, Any

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "holdfast.cli.commands",
        "holdfast.cli.line_chat",
        "holdfast.providers.local",
        "holdfast.wiring.settings_host",
    ]
)


def run_forked(
    arguments: Sequence[str], environment: Mapping[str, str], folder: Path, given: str, patience: float
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. `subprocess.TimeoutExpired` when it does not end in time."""
    with tempfile.TemporaryFile() as standard_in, _file() as out, _file() as err:
        standard_in.write(given.encode())
        standard_in.seek(0)
        streams = [DupFd(each.fileno()) for each in (standard_in, out, err)]
        process = _CONTEXT.Process(target=_run, args=(list(arguments), dict(environment), folder, streams))
        process.start()
        process.join(patience)
        if process.is_alive():
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(list(arguments), patience)
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(list(arguments), process.exitcode or 0, out.read(), err.read())


def _file() -> "IO[str]":
    return tempfile.TemporaryFile("w+", encoding="utf-8")


def _run(arguments: list[str], environment: dict[str, str], folder: Path, streams: list[Any]) -> None:
    """Be that command: the streams, environment and folder of its own, and an interpreter's whole end."""
    for number, stream in enumerate(streams):
        descriptor = stream.detach()
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115 - the process's own
        for number, mode in enumerate(("r", "w", "w"))
    )
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(folder)
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(each, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["holdfast", *arguments]
    from holdfast.cli.main import main

    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - as the interpreter's own end
    atexit._run_exitfuncs()  # noqa: SLF001
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
