"""The `holdfast` command: what a shell gets from it, and where its parts are. Read `main.py` next.

A shell gets results on standard output, diagnostics on standard error, and an exit code from the table
below; the first class that fits counts.

`main.py` is the entry point; `commands.py` lists the commands, each in a file of its own that is imported
when the command runs. A chat starts in `start_chat.py`: on a terminal it is `terminal/` (read
`terminal/chat.py` first), without one it is `line_chat.py`, which answers each line. `ask.py` answers one
question. Text of models, tools and strangers is cleaned by `clean_text.py` before it reaches a terminal.
"""

from holdfast.core.errors import HoldfastError, InvalidInput, ModelFailure, Refused, Retryable, StoreFailure
from holdfast.core.stop_signal import StoppedBySignal

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
    if isinstance(error, StoppedBySignal):
        # As a shell shows a process that the signal ended.
        return 128 + error.signal
    # A turn that failed carries the class of its error: the error itself stayed with the turn.
    failed = getattr(error, "kind", type(error))
    return next((code for kind, code in EXIT_CODES if issubclass(failed, kind)), 1)
