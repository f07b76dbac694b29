"""`can_start_threads`: since Python 3.12 no thread starts while the interpreter exits."""

import threading


def can_start_threads() -> bool:
    """Whether a thread can start now; False while the interpreter exits, or when threads have run out."""
    try:
        threading.Thread(target=_nothing, name="thread-check", daemon=True).start()
    except RuntimeError:
        return False
    return True


def _nothing() -> None:
    pass
