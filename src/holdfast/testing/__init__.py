"""Fakes, fault injection and contract suites, for plugin authors and for Holdfast's own tests.

It may import any contract. Only `tests/` imports it, and `wiring` for the scripted model. Each name is
loaded when it is first used, because pytest imports this package in every run, for its plugin.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.testing.adapter_suite import ADAPTER_CHECKS, run_adapter_check
    from holdfast.testing.async_clock import AsyncFakeClock
    from holdfast.testing.chat_platform import ChatPlatform, SeenMessage
    from holdfast.testing.clock import FakeClock
    from holdfast.testing.faults import CrashingEngine, ProcessDied
    from holdfast.testing.http_server import LoopbackServer
    from holdfast.testing.memory_chats import MemoryOptions
    from holdfast.testing.memory_platform import MemoryPlatform
    from holdfast.testing.provider_case import Health, NotOffered, ProviderCase
    from holdfast.testing.providers import RecordingProvider
    from holdfast.testing.recorded_model import RecordedModel, RecordingDiffers
    from holdfast.testing.script_file import HttpRefusal
    from holdfast.testing.scripted_model import Call, Delay, Reasoning, ScriptedModel, Tokens
    from holdfast.testing.scripted_server import ScriptedServer

__all__ = [
    "ADAPTER_CHECKS",
    "AsyncFakeClock",
    "Call",
    "ChatPlatform",
    "CrashingEngine",
    "Delay",
    "FakeClock",
    "Health",
    "HttpRefusal",
    "LoopbackServer",
    "MemoryOptions",
    "MemoryPlatform",
    "NotOffered",
    "ProcessDied",
    "ProviderCase",
    "Reasoning",
    "RecordedModel",
    "RecordingDiffers",
    "RecordingProvider",
    "ScriptedModel",
    "ScriptedServer",
    "SeenMessage",
    "Tokens",
    "run_adapter_check",
]

_HOME = {
    "ADAPTER_CHECKS": "adapter_suite",
    "AsyncFakeClock": "async_clock",
    "Call": "scripted_model",
    "ChatPlatform": "chat_platform",
    "CrashingEngine": "faults",
    "Delay": "scripted_model",
    "FakeClock": "clock",
    "Health": "provider_case",
    "HttpRefusal": "script_file",
    "LoopbackServer": "http_server",
    "MemoryOptions": "memory_chats",
    "MemoryPlatform": "memory_platform",
    "NotOffered": "provider_case",
    "ProcessDied": "faults",
    "ProviderCase": "provider_case",
    "Reasoning": "scripted_model",
    "RecordedModel": "recorded_model",
    "RecordingDiffers": "recorded_model",
    "RecordingProvider": "providers",
    "ScriptedModel": "scripted_model",
    "ScriptedServer": "scripted_server",
    "SeenMessage": "chat_platform",
    "Tokens": "scripted_model",
    "run_adapter_check": "adapter_suite",
}

if not TYPE_CHECKING:  # A type checker that saw this function would accept any name.

    def __getattr__(name: str) -> object:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
