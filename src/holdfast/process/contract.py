"""What this package offers, and the data that it returns. Everything is exported by `holdfast.process`.

- Blocking work: `DaemonPool` owns threads. `off_loop` awaits a function that runs on one of them, and
  `all_done` waits for several. `LoopThread` is for blocking code that runs coroutines on a loop of its own.
- Event loops: `run` and `use_daemon_loops` make loops whose default executor is a daemon pool. `NameLookup`
  resolves host names.
- Tasks: `finish_despite_cancel`, `is_cancelled`, and `BackgroundTasks` for those that nobody awaits.
- The end of the process: `StopSignals` receives the signals. `ShutdownBudget` is the one deadline for
  everything that must finish. `ExitWatchdog` ends a process whose clean-up is stuck. `ExitBarrier` makes the
  exit wait for work that must not be cut off.
- The machine: `process_identity`, `holder_name` and `is_gone` tell whether another process still lives.
  `open_files.py` keeps file descriptors in reserve.

Two rules hold for all of it. No thread that is started here keeps the interpreter from exiting, and nothing
that is awaited here blocks the event loop.
"""

from dataclasses import dataclass

from holdfast.core.errors import HoldfastError


@dataclass(frozen=True, slots=True)
class PoolStats:
    """The numbers of a pool at one moment.

    Every call that was ever given to `submit` is counted in exactly one of `busy`, `waiting`, `completed`,
    `failed`, `cancelled` and `rejected`. A pool is saturated when `busy + waiting == capacity`.
    """

    workers: int
    busy: int
    waiting: int
    capacity: int
    completed: int
    failed: int
    cancelled: int
    rejected: int


@dataclass(frozen=True, slots=True)
class StageTime:
    """How long one stage of a shutdown took."""

    name: str
    seconds: float


class WorkCancelled(HoldfastError):
    """The work itself raised asyncio's CancelledError; nobody cancelled the task that awaits it."""

    def __init__(self, work: str) -> None:
        super().__init__(f"{work} cancelled itself")
        self.work = work
