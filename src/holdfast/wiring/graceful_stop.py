"""Opens a host for one command, and closes it within a time limit (X3, X4).

SIGINT, SIGTERM and SIGHUP all start the same shutdown. It names the steps that take long, then the deliveries
that are still owed to memory. Ctrl-C during the shutdown skips the remaining steps.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Unpack

from holdfast.core.clock import SystemClock
from holdfast.core.settings import Settings
from holdfast.core.stop_signal import StoppedBySignal
from holdfast.process import ExitWatchdog, ShutdownBudget, StopSignals
from holdfast.wiring.service_manager import STOPPING, tell_service_manager
from holdfast.wiring.settings_host import Host, HostKeywords
from holdfast.wiring.store_opener import exit_watchdog

SHUTDOWN_SECONDS = 5.0
# Shorter waits are not reported.
QUIET_SECONDS = 0.15


class GracefulStop:
    """Receives the request to stop, from a signal or from the program, and closes the host."""

    def __init__(self, watchdog: ExitWatchdog, say: Callable[[str], None]) -> None:
        self._watchdog = watchdog
        self._say = say
        self._budget: ShutdownBudget | None = None
        self._loop = asyncio.get_running_loop()
        self.requested = asyncio.Event()
        self.signal: signal.Signals | None = None
        self.signals = StopSignals(on_stop=self._on_signal, on_skip=self._on_signal)

    def request(self) -> None:
        """Ask the command to end."""
        self.requested.set()

    async def wait_for(self, work: "asyncio.Future[Any]") -> bool:
        """Wait until the work is done, or a stop is requested before; returns whether it is done."""
        stop = asyncio.ensure_future(self.requested.wait())
        await asyncio.wait([work, stop], return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        return work.done()

    def raise_signal(self) -> None:
        """Raise the exception that ends the command with the exit code of the signal, if one came."""
        if self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        if self.signal is not None:
            raise StoppedBySignal(self.signal)

    def _on_signal(self, signum: signal.Signals) -> None:
        # This runs on the thread of `StopSignals`.
        budget = self._budget
        if budget is not None and signum == signal.SIGINT:
            budget.expire()
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._record, signum)

    def _record(self, signum: signal.Signals) -> None:
        self.signal = self.signal or signum
        self.requested.set()

    async def close(self, host: Host, settings: Settings) -> None:
        """Close the host within one budget, and report the steps that take long."""
        tell_service_manager(STOPPING)
        budget = self._budget = ShutdownBudget(max(SHUTDOWN_SECONDS, settings.memory.drain_s), SystemClock())
        self._watchdog.arm(lambda: ", ".join(budget.waiting_for) or "the end of the program")
        reporting = asyncio.create_task(self._report_waits(budget), name="leaving")
        try:
            owed = await host.close(budget)
        finally:
            reporting.cancel()
        for line in owed:
            self._say(line)

    async def _report_waits(self, budget: ShutdownBudget) -> None:
        """Report each stage that takes long enough for a person to notice."""
        reported = ""
        while True:
            await asyncio.sleep(QUIET_SECONDS if not reported else 0.1)
            now = ", ".join(budget.waiting_for)
            if now and now != reported:
                reported = now
                left = budget.remaining()
                self._say(f"waiting for {now}, {left:.0f} s at most; Ctrl-C skips it, and nothing is lost")


@asynccontextmanager
async def open_host(
    settings: Settings, *, say: Callable[[str], None], **how: Unpack[HostKeywords]
) -> AsyncIterator[tuple[Host, GracefulStop]]:
    """A host for one command, with its `GracefulStop`. A signal before the host is open ends the command."""
    leaving = GracefulStop(exit_watchdog(settings), say)
    with leaving.signals:
        made = Host(settings, **how)
        host = await _opened(made, leaving)
        host.chats.set_up(settings.gateway.platforms)
        try:
            yield host, leaving
        finally:
            await leaving.close(host, settings)


async def _opened(host: Host, leaving: GracefulStop) -> Host:
    opening = asyncio.ensure_future(host.__aenter__())
    try:
        if not await leaving.wait_for(opening):
            leaving.raise_signal()
    finally:
        opening.cancel()  # nothing, when it is done
    return await opening
