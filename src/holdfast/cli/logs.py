"""The log file: what happened, for a person who looks for a cause. Nothing is logged to the terminal."""

import logging
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

BYTES = 2_000_000
KEPT = 3
LOOK_EVERY = 50
"""Lines between two looks at the file's size."""
# What a record has by itself; all else came as `extra`.
KNOWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class Facts(logging.Formatter):
    """The event's name and its facts."""

    def format(self, record: logging.LogRecord) -> str:
        facts = " ".join(f"{key}={value!r}" for key, value in vars(record).items() if key not in KNOWN)
        line = super().format(record)
        head, newline, rest = line.partition("\n")
        return f"{head} {facts}{newline}{rest}" if facts else line


class Rolling(RotatingFileHandler):
    """Looks now and then whether the file is full: to ask at every line took as long as to write it."""

    def __init__(self, file: Path) -> None:
        super().__init__(file, maxBytes=BYTES, backupCount=KEPT, encoding="utf-8", delay=True)
        self._lines = 0

    def shouldRollover(self, record: logging.LogRecord) -> int:  # noqa: N802 - its name in the library
        self._lines += 1
        return int(self._lines % LOOK_EVERY == 1 and super().shouldRollover(record))


class OnScreen(logging.Handler):
    """Standard error as it is at each moment: a prompt puts itself in front of it."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(f"{self.format(record)}\n")


def log_file(folder: Path) -> Path:
    """Where the log is."""
    return folder / "holdfast.log"


def start_log(folder: Path, *, debug: bool) -> None:
    """Write the log; to standard error as well when debugging. Without a place for it, there is none."""
    root = logging.getLogger()
    root.setLevel(logging.DEBUG if debug else logging.INFO)
    for noisy in ("asyncio", "httpx", "httpcore", "openai", "anthropic", "mcp", "markdown_it"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    formatter = Facts("%(asctime)s %(levelname)s %(process)d %(name)s %(message)s")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file: logging.Handler = Rolling(log_file(folder))
    except OSError:
        file = logging.NullHandler()
    handlers: list[logging.Handler] = [file, OnScreen()] if debug else [file]
    for handler in handlers:
        handler.setFormatter(formatter)
        root.addHandler(handler)
    # A full disk must not print tracebacks over a conversation.
    logging.raiseExceptions = debug
