"""What a shell gets from the command: results on stdout, diagnostics on stderr, and an exit code.

One table maps errors to exit codes; the first class that fits counts.
"""

from holdfast.core.errors import HoldfastError, InvalidInput, ModelFailure, Refused, Retryable, StoreFailure
from holdfast.core.stopping import Stopped

EXIT_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (InvalidInput, 2),
    (Refused, 3),
    (Retryable, 75),
    (StoreFailure, 4),
    (ModelFailure, 5),
    (HoldfastError, 1),
    (KeyboardInterrupt, 130),
)
"""0 is success; 86 is the exit watchdog's (see `process/exit_watchdog.py`)."""


def exit_code(error: BaseException) -> int:
    """The exit code for what went wrong."""
    if isinstance(error, Stopped):
        # As a shell shows a process that the signal ended.
        return 128 + error.signal
    # A turn that failed carries the class of its error: the error itself stayed with the turn.
    failed = getattr(error, "kind", type(error))
    return next((code for kind, code in EXIT_CODES if issubclass(failed, kind)), 1)
