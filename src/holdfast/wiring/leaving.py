"""The end of a command that runs a host: it says what it waits for, then what is owed (X3, X4).

Whichever of SIGINT, SIGTERM and SIGHUP comes, the same bounded path is taken, and Ctrl-C during it skips what
is left.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from holdfast.core.clock import SystemClock
from holdfast.core.settings import Settings
from holdfast.core.stopping import Stopped
from holdfast.host import Host
from holdfast.process import ExitWatchdog, ShutdownBudget, StopSignals
from holdfast.wiring.basics import exit_watchdog
from holdfast.wiring.hosting import Host as HostOfSettings

SHUTDOWN_SECONDS = 5.0
# Waits shorter than this need no words.
QUIET_SECONDS = 0.15


class Leaving:
    """A stop that was asked for, and the way out."""

    def __init__(self, watchdog: ExitWatchdog, say: Callable[[str], None]) -> None:
        self._watchdog = watchdog
        self._say = say
        self._budget: ShutdownBudget | None = None
        self._loop = asyncio.get_running_loop()
        self.asked = asyncio.Event()
        self.signal: signal.Signals | None = None
        self.signals = StopSignals(on_stop=self._heard, on_hurry=self._heard)

    def ask(self) -> None:
        """Leave, please."""
        self.asked.set()

    def raise_signal(self) -> None:
        """End as a shell expects of a process that a signal ended."""
        if self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        if self.signal is not None:
            raise Stopped(self.signal)

    def _heard(self, signum: signal.Signals) -> None:
        # On the signals' own thread.
        budget = self._budget
        if budget is not None and signum == signal.SIGINT:
            budget.expire()
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._note, signum)

    def _note(self, signum: signal.Signals) -> None:
        self.signal = self.signal or signum
        self.asked.set()

    async def close(self, host: Host, settings: Settings) -> list[str]:
        """Close the host in one budget; says what is waited for when it takes a moment."""
        budget = self._budget = ShutdownBudget(max(SHUTDOWN_SECONDS, settings.memory.drain_s), SystemClock())
        self._watchdog.arm(lambda: ", ".join(budget.waiting_for) or "the end of the program")
        telling = asyncio.create_task(self._tell(budget), name="leaving")
        try:
            owed = await host.close(budget)
        finally:
            telling.cancel()
        for line in owed:
            self._say(line)
        return owed

    async def _tell(self, budget: ShutdownBudget) -> None:
        """Name each stage that takes long enough to be noticed."""
        told = ""
        while True:
            await asyncio.sleep(QUIET_SECONDS if not told else 0.1)
            now = ", ".join(budget.waiting_for)
            if now and now != told:
                told = now
                left = budget.remaining()
                self._say(f"waiting for {now}, {left:.0f} s at most; Ctrl-C skips it, and nothing is lost")


@asynccontextmanager
async def host_run(
    settings: Settings, *, source: str, say: Callable[[str], None]
) -> AsyncIterator[tuple[Host, Leaving]]:
    """A host for one command, and the way out of it; a signal before it is open ends the command."""
    leaving = Leaving(exit_watchdog(settings), say)
    with leaving.signals:
        host = await _opened(settings, source, leaving)
        try:
            yield host, leaving
        finally:
            await leaving.close(host, settings)


async def _opened(settings: Settings, source: str, leaving: Leaving) -> Host:
    host = HostOfSettings(settings, source=source)
    opening = asyncio.ensure_future(host.__aenter__())
    stop = asyncio.ensure_future(leaving.asked.wait())
    await asyncio.wait([opening, stop], return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if not opening.done():
        opening.cancel()
        leaving.raise_signal()
    return await opening
