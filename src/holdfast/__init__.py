"""The public names of Holdfast; `__all__` is the promise, everything else may change.

Each name is loaded when it is first used, so `import holdfast` needs nothing but the standard
library. Read next: `holdfast.agent.turn`, the heart.
"""

import importlib

# Not from `typing`: with `python -m holdfast` that could be a file in the current folder.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from holdfast.agent import AgentOptions, Limits, Pools, ToolProfiles, TurnResult
    from holdfast.core import errors, events
    from holdfast.core.settings import Settings
    from holdfast.host import AskOptions, TurnHandle
    from holdfast.memory import CompletedTurn, MemoryManager, MemoryProvider, SessionLifecycle
    from holdfast.models.contract import (
        Finished,
        Model,
        ModelPiece,
        ModelRequest,
        ModelTraits,
        TextPiece,
        ToolCallPiece,
        Usage,
    )
    from holdfast.sessions import SessionDB
    from holdfast.tools.contract import ApprovalRequest, ToolContext, ToolResult
    from holdfast.tools.decorator import tool
    from holdfast.wiring.library_agent import Agent
    from holdfast.wiring.library_models import open_model
    from holdfast.wiring.settings_host import Host

    __version__: str

__all__ = [
    "Agent",
    "AgentOptions",
    "ApprovalRequest",
    "AskOptions",
    "CompletedTurn",
    "Finished",
    "Host",
    "Limits",
    "MemoryManager",
    "MemoryProvider",
    "Model",
    "ModelPiece",
    "ModelRequest",
    "ModelTraits",
    "Pools",
    "SessionDB",
    "SessionLifecycle",
    "Settings",
    "TextPiece",
    "ToolCallPiece",
    "ToolContext",
    "ToolProfiles",
    "ToolResult",
    "TurnHandle",
    "TurnResult",
    "Usage",
    "__version__",
    "errors",
    "events",
    "open_model",
    "tool",
]

_HOME = {
    "Agent": "holdfast.wiring.library_agent",
    "AgentOptions": "holdfast.agent",
    "ToolProfiles": "holdfast.agent",
    "ApprovalRequest": "holdfast.tools.contract",
    "AskOptions": "holdfast.host",
    "CompletedTurn": "holdfast.memory",
    "Finished": "holdfast.models.contract",
    "Host": "holdfast.wiring.settings_host",
    "Limits": "holdfast.agent",
    "MemoryManager": "holdfast.memory",
    "MemoryProvider": "holdfast.memory",
    "Model": "holdfast.models.contract",
    "ModelPiece": "holdfast.models.contract",
    "ModelRequest": "holdfast.models.contract",
    "ModelTraits": "holdfast.models.contract",
    "Pools": "holdfast.agent",
    "SessionDB": "holdfast.sessions",
    "SessionLifecycle": "holdfast.memory",
    "Settings": "holdfast.core.settings",
    "TextPiece": "holdfast.models.contract",
    "ToolCallPiece": "holdfast.models.contract",
    "ToolContext": "holdfast.tools.contract",
    "ToolResult": "holdfast.tools.contract",
    "TurnHandle": "holdfast.host",
    "TurnResult": "holdfast.agent",
    "Usage": "holdfast.models.contract",
    "open_model": "holdfast.wiring.library_models",
    "tool": "holdfast.tools.decorator",
}
_MODULES = {"errors": "holdfast.core.errors", "events": "holdfast.core.events"}


if not TYPE_CHECKING:  # A type checker that saw this function would accept any name.

    def __getattr__(name: str) -> object:
        if name == "__version__":
            return importlib.import_module("importlib.metadata").version("holdfast-agent")
        if name in _MODULES:
            return importlib.import_module(_MODULES[name])
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
