"""Fakes, fault injection and contract kits, shipped for plugin authors and used by Holdfast's tests.

May import any contract. Nothing outside `tests/` imports it, except the scripted model through `wiring`.
"""

from holdfast.testing.clock import FakeClock
from holdfast.testing.faults import CrashingEngine, ProcessDied
from holdfast.testing.script_file import HttpRefusal
from holdfast.testing.scripted_model import Call, Delay, Reasoning, ScriptedModel, Tokens

__all__ = [
    "Call",
    "CrashingEngine",
    "Delay",
    "FakeClock",
    "HttpRefusal",
    "ProcessDied",
    "Reasoning",
    "ScriptedModel",
    "Tokens",
]
