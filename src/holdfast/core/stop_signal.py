"""`StoppedBySignal`: raised in a command that a signal ends."""

import signal


class StoppedBySignal(BaseException):
    """A signal asked the command to end."""

    def __init__(self, signum: int) -> None:
        self.signal = signal.Signals(signum)
        super().__init__(f"stopped by {self.signal.name}")
