"""Fakes, fault injection and contract kits, shipped for plugin authors and used by Holdfast's tests.

May import any contract. Nothing outside `tests/` imports it, except the scripted model through `wiring`.
"""

from holdfast.testing.clock import FakeClock
from holdfast.testing.faults import CrashingEngine, ProcessDied

__all__ = ["CrashingEngine", "FakeClock", "ProcessDied"]
