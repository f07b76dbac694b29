"""The log file. Nothing is logged to the terminal, unless --debug asks for it."""

import logging
import os
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from holdfast.core.error_text import cut_words

BYTES = 2_000_000
KEPT = 3
# An exception of foreign code, or a fact that quotes it, may be of any size.
FACT_CHARACTERS = 4_000
TRACEBACK_CHARACTERS = 40_000
# The attributes of every record; all others came as `extra`.
KNOWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class FactsFormatter(logging.Formatter):
    """Formats the event's name and its facts."""

    def format(self, record: logging.LogRecord) -> str:
        facts = " ".join(f"{key}={_shown(value)}" for key, value in vars(record).items() if key not in KNOWN)
        line = super().format(record)
        head, newline, rest = line.partition("\n")
        return f"{head} {facts}{newline}{rest}" if facts else line

    def formatException(self, ei: Any) -> str:  # noqa: N802, ANN401 - as in the library
        text = super().formatException(ei)
        half = TRACEBACK_CHARACTERS // 2
        if len(text) <= TRACEBACK_CHARACTERS:
            return text
        return f"{cut_words(text[:-half], half)}\n{text[-half:]}"


def _shown(value: object) -> str:
    return cut_words(repr(value), FACT_CHARACTERS)


class LogFileHandler(RotatingFileHandler):
    """Begins a new file when the current one is full, or was deleted or moved away."""

    def __init__(self, file: Path) -> None:
        super().__init__(file, maxBytes=BYTES, backupCount=KEPT, encoding="utf-8", delay=True)

    def shouldRollover(self, record: logging.LogRecord) -> int:  # noqa: N802 - its name in the library
        self._follow_the_name()
        return int(super().shouldRollover(record))

    def _follow_the_name(self) -> None:
        if self.stream is not None:
            try:
                there = Path(self.baseFilename).stat()
                moved = not os.path.samestat(there, os.fstat(self.stream.fileno()))
            except OSError:
                moved = True
            if moved:
                self.stream.close()
                self.stream = self._open()


class StderrHandler(logging.Handler):
    """Writes to the current `sys.stderr`, which a prompt replaces while it is shown."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(f"{self.format(record)}\n")


def log_file(folder: Path) -> Path:
    """The path of the log file."""
    return folder / "holdfast.log"


def start_log(folder: Path, *, debug: bool) -> None:
    """Begin the log, with `debug` also on standard error; without a folder nothing is logged."""
    root = logging.getLogger()
    root.setLevel(logging.DEBUG if debug else logging.INFO)
    for noisy in (
        "asyncio",
        "httpx",
        "httpx2",
        "httpcore",
        "httpcore2",
        "openai",
        "anthropic",
        "mcp",
        "markdown_it",
    ):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    formatter = FactsFormatter("%(asctime)s %(levelname)s %(process)d %(name)s %(message)s")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file: logging.Handler = LogFileHandler(log_file(folder))
    except OSError:
        file = logging.NullHandler()
    handlers: list[logging.Handler] = [file, StderrHandler()] if debug else [file]
    for handler in handlers:
        handler.setFormatter(formatter)
        root.addHandler(handler)
    # A full disk must not print tracebacks over a conversation.
    logging.raiseExceptions = debug
