"""Threads, event loops, cancellation, signals and the end of the process. Read `contract.py` first."""

from holdfast.process.background_tasks import BackgroundTasks
from holdfast.process.cancellation import finish_despite_cancel, is_cancelled
from holdfast.process.contract import PoolStats, StageTime, WorkCancelled
from holdfast.process.daemon_pool import DaemonPool
from holdfast.process.event_loop import DaemonLoop, run, use_daemon_loops
from holdfast.process.exit_barrier import ExitBarrier
from holdfast.process.exit_watchdog import EXIT_STUCK, ExitWatchdog
from holdfast.process.identity import (
    holder_name,
    is_alive,
    is_alive_here,
    is_gone,
    is_provably_gone,
    process_identity,
)
from holdfast.process.loop_thread import LoopThread
from holdfast.process.name_lookup import NameLookup
from holdfast.process.off_loop import all_done, off_loop
from holdfast.process.open_files import (
    is_scarce,
    open_files_limit,
    raise_open_files_limit,
    reserve,
    with_original_limit,
)
from holdfast.process.shutdown_budget import ShutdownBudget
from holdfast.process.signals import StopSignals, exit_code_for

__all__ = [
    "EXIT_STUCK",
    "BackgroundTasks",
    "DaemonLoop",
    "DaemonPool",
    "ExitBarrier",
    "ExitWatchdog",
    "LoopThread",
    "NameLookup",
    "PoolStats",
    "ShutdownBudget",
    "StageTime",
    "StopSignals",
    "WorkCancelled",
    "all_done",
    "exit_code_for",
    "finish_despite_cancel",
    "holder_name",
    "is_alive",
    "is_alive_here",
    "is_cancelled",
    "is_gone",
    "is_provably_gone",
    "is_scarce",
    "off_loop",
    "open_files_limit",
    "process_identity",
    "raise_open_files_limit",
    "reserve",
    "run",
    "use_daemon_loops",
    "with_original_limit",
]
