"""The entry point: parse, run one command, explain what went wrong."""

import os
import sys
import threading
from contextlib import suppress
from io import TextIOWrapper
from typing import TextIO

import holdfast
from holdfast.cli.closed_streams import replace_closed_streams
from holdfast.cli.contract import exit_code
from holdfast.cli.stop_signals import raise_on_signals
from holdfast.core.distribution import overwritten_problem
from holdfast.core.errors import HoldfastError
from holdfast.core.stop_signal import StoppedBySignal

DEBUG = "--debug"
WATCHING = ("exit-watchdog", "stop-signals")
"""Daemon threads that hold nothing."""


def main() -> None:
    """Run the command line and exit with its code."""
    has_output = replace_closed_streams()
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        # What an encoding can't hold is marked, not fatal.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        code = run(sys.argv[1:], sys.stderr) if has_output else _without_output()
        sys.stdout.flush()
    except (KeyboardInterrupt, StoppedBySignal) as stop:
        code = exit_code(stop)
    except OSError as cause:
        # The reader of the output is gone, or its disk is full. The command itself is done.
        with suppress(OSError):
            sys.stderr.write(f"holdfast: the result can't be printed: {cause.strerror}\n")
            sys.stderr.flush()
        code = 1
        # The interpreter would try to flush it once more, and fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    _end(code)


def _without_output() -> int:
    sys.stderr.write(
        "holdfast: standard output is closed, so there is no place for the result. Nothing was done.\n"
    )
    return 1


def _end(code: int) -> None:
    """Exit; at once when work was left behind on a thread, which C++ libraries don't survive otherwise.

    See docs/decisions/0009.
    """
    at_work = [each for each in threading.enumerate() if each.daemon and each.name not in WATCHING]
    if at_work:
        # The work is done, the messages are printed, and what is owed is on disk.
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def run(arguments: list[str], stderr: TextIO) -> int:
    """Run one command; returns the exit code."""
    if problem := overwritten_problem(holdfast):
        print(f"holdfast: {problem}", file=stderr)
        return 1
    if arguments in (["--version"], ["version"]):
        # Answered before anything else is imported.
        from holdfast import __version__

        print(f"holdfast {__version__}")  # noqa: T201 - the result of the command
        return 0
    debug = DEBUG in arguments
    given = [each for each in arguments if each != DEBUG]
    try:
        raise_on_signals()
        _start_log(debug)
        _run_command(given)
    except (HoldfastError, KeyboardInterrupt, StoppedBySignal) as error:
        print(f"holdfast: {error}" if str(error) else "holdfast: interrupted", file=stderr)
        if debug:
            _print_traceback(stderr)
        return exit_code(error)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    except OSError:
        raise
    except Exception as failure:  # noqa: BLE001 - the edge; it is logged below
        return _report_bug(failure, debug, stderr)
    return 0


def _run_command(arguments: list[str]) -> None:
    from holdfast.process import raise_open_files_limit, use_daemon_loops

    raise_open_files_limit()
    # A hanging call in a loop of a library or a plugin must not hold up the exit.
    use_daemon_loops()
    if arguments in ([], ["chat"]):
        # The most common start has nothing to parse, and doesn't pay for the parser.
        from holdfast.cli.start_chat import start_chat

        start_chat()
        return
    from holdfast.cli.commands import app

    app(arguments, result_action="return_value")


def _start_log(debug: bool) -> None:
    from holdfast.cli.logs import start_log
    from holdfast.wiring import log_folder

    start_log(log_folder(), debug=debug)


def _report_bug(failure: Exception, debug: bool, stderr: TextIO) -> int:
    import logging

    from holdfast.cli.logs import log_file
    from holdfast.wiring import log_folder

    logging.getLogger(__name__).error("command.failed", exc_info=failure)
    print(f"holdfast: this is a bug: {type(failure).__name__}: {failure}", file=stderr)
    print(
        f"holdfast: the details are in {log_file(log_folder())}, or on the screen with --debug", file=stderr
    )
    if debug:
        _print_traceback(stderr)
    return exit_code(failure)


def _print_traceback(stderr: TextIO) -> None:
    import traceback

    traceback.print_exc(file=stderr)
