"""How work leaves the event loop and how the process ends. Read `contract.py` first."""

from holdfast.process.contract import PoolStats, StageTime, WorkCancelled
from holdfast.process.daemon_pool import DaemonPool
from holdfast.process.exit_watchdog import EXIT_STUCK, ExitWatchdog
from holdfast.process.identity import is_gone, process_mark
from holdfast.process.off_loop import off_loop
from holdfast.process.own_loop import OwnLoop
from holdfast.process.shutdown_budget import ShutdownBudget
from holdfast.process.signals import StopSignals, exit_code_for

__all__ = [
    "EXIT_STUCK",
    "DaemonPool",
    "ExitWatchdog",
    "OwnLoop",
    "PoolStats",
    "ShutdownBudget",
    "StageTime",
    "StopSignals",
    "WorkCancelled",
    "exit_code_for",
    "is_gone",
    "off_loop",
    "process_mark",
]
