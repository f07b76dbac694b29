"""Fakes, fault injection and contract suites, for plugin authors and for Holdfast's own tests.

This room may import any contract. Only `tests/` imports it, and `wiring` for the scripted model. Each name is
loaded when it is first used, because pytest imports this package in every run, for its plugin.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.testing.clock import FakeClock
    from holdfast.testing.faults import CrashingEngine, ProcessDied
    from holdfast.testing.provider_case import ProviderCase
    from holdfast.testing.script_file import HttpRefusal
    from holdfast.testing.scripted_model import Call, Delay, Reasoning, ScriptedModel, Tokens

__all__ = [
    "Call",
    "CrashingEngine",
    "Delay",
    "FakeClock",
    "HttpRefusal",
    "ProcessDied",
    "ProviderCase",
    "Reasoning",
    "ScriptedModel",
    "Tokens",
]

_HOME = {
    "Call": "scripted_model",
    "CrashingEngine": "faults",
    "Delay": "scripted_model",
    "FakeClock": "clock",
    "HttpRefusal": "script_file",
    "ProcessDied": "faults",
    "ProviderCase": "provider_case",
    "Reasoning": "scripted_model",
    "ScriptedModel": "scripted_model",
    "Tokens": "scripted_model",
}

if not TYPE_CHECKING:  # A type checker that saw this function would accept any name.

    def __getattr__(name: str) -> object:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
