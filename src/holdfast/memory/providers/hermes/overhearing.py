"""Hears, in a plugin's log, the errors that it swallows: they are what a delivery would have raised.

Such plugins write on a thread of their own, catch what fails there and log it, at any level. A record that
carries an exception, from the thread that wrote, is taken as that failure; so the turn is tried again. A
plugin that recovered by itself after such a record may get a turn twice, which is less bad than never.
"""

import logging
import threading


class Overhearing(logging.Handler):
    """Listens to one plugin's loggers. What is loud enough goes on to the log as usual."""

    def __init__(self, package: str) -> None:
        super().__init__()
        self._logger = logging.getLogger(package)
        self._logger.setLevel(logging.DEBUG)
        self._logger.propagate = False
        self._logger.addHandler(self)
        self._guard = threading.Lock()  # guards _heard
        self._heard: list[tuple[int, BaseException]] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = _error_in(record)
        if error is not None and record.thread is not None:
            with self._guard:
                self._heard.append((record.thread, error))
        beyond = self._logger.parent or logging.root
        if beyond.isEnabledFor(record.levelno):
            beyond.handle(record)

    def clear(self) -> None:
        with self._guard:
            self._heard.clear()

    def error_on(self, *threads: int | None) -> BaseException | None:
        """The last error that one of these threads swallowed since `clear`."""
        with self._guard:
            return next((error for thread, error in reversed(self._heard) if thread in threads), None)

    def close(self) -> None:
        self._logger.removeHandler(self)
        super().close()


def _error_in(record: logging.LogRecord) -> BaseException | None:
    if record.exc_info and record.exc_info[1] is not None:
        return record.exc_info[1]
    given = record.args if isinstance(record.args, tuple) else ()
    return next((each for each in given if isinstance(each, BaseException)), None)
