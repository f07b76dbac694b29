"""`Stopped`: a signal asked for the end of a command."""

import signal


class Stopped(BaseException):
    """A signal asked for the end."""

    def __init__(self, signum: int) -> None:
        self.signal = signal.Signals(signum)
        super().__init__(f"stopped by {self.signal.name}")
