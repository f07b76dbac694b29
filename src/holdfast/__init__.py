"""The public names of Holdfast; `__all__` is the promise, everything else may change.

Each name is loaded when it is first used, so `import holdfast` needs nothing but the standard
library. Read next: `holdfast.agent.turn`, the heart.
"""

import importlib

# Not from `typing`: with `python -m holdfast` that could be a file in the current folder.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from holdfast.agent import Agent
    from holdfast.core.settings import Settings
    from holdfast.memory import MemoryManager, MemoryProvider, SessionLifecycle
    from holdfast.sessions import SessionDB
    from holdfast.tools.decorator import tool
    from holdfast.wiring.settings_host import Host

    __version__: str

__all__ = [
    "Agent",
    "Host",
    "MemoryManager",
    "MemoryProvider",
    "SessionDB",
    "SessionLifecycle",
    "Settings",
    "__version__",
    "tool",
]

_HOME = {
    "Agent": "holdfast.agent",
    "Host": "holdfast.wiring.settings_host",
    "MemoryManager": "holdfast.memory",
    "MemoryProvider": "holdfast.memory",
    "SessionLifecycle": "holdfast.memory",
    "SessionDB": "holdfast.sessions",
    "Settings": "holdfast.core.settings",
    "tool": "holdfast.tools.decorator",
}


if not TYPE_CHECKING:  # A type checker that saw this function would accept any name.

    def __getattr__(name: str) -> object:
        if name == "__version__":
            return importlib.import_module("importlib.metadata").version("holdfast-agent")
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
