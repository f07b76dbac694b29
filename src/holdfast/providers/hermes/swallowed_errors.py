"""Finds the errors that a plugin catches and only logs, so that a failed delivery is retried.

Such plugins write on a thread of their own, catch the errors there and log them, at any level. A log record
with an exception from that thread counts as a failed delivery, and the turn is delivered again. A plugin that
recovered by itself after such a record may get a turn twice, which is better than never.
"""

import logging
import threading


class SwallowedErrors(logging.Handler):
    """A handler on the loggers of one plugin; it passes records on to the log as usual."""

    def __init__(self, package: str) -> None:
        super().__init__()
        self._logger = logging.getLogger(package)
        self._logger.setLevel(logging.DEBUG)
        self._logger.propagate = False
        self._logger.addHandler(self)
        self._lock = threading.Lock()  # guards _errors
        self._errors: list[tuple[int, BaseException]] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = _error_in(record)
        if error is not None and record.thread is not None:
            with self._lock:
                self._errors.append((record.thread, error))
        beyond = self._logger.parent or logging.root
        if beyond.isEnabledFor(record.levelno):
            beyond.handle(record)

    def clear(self) -> None:
        with self._lock:
            self._errors.clear()

    def error_on(self, *threads: int | None) -> BaseException | None:
        """The last error that one of these threads has logged since `clear`."""
        with self._lock:
            return next((error for thread, error in reversed(self._errors) if thread in threads), None)

    def close(self) -> None:
        self._logger.removeHandler(self)
        super().close()


def _error_in(record: logging.LogRecord) -> BaseException | None:
    if record.exc_info and record.exc_info[1] is not None:
        return record.exc_info[1]
    given = record.args if isinstance(record.args, tuple) else ()
    return next((each for each in given if isinstance(each, BaseException)), None)
