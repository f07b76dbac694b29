"""Runs sessions for every surface. Read `contract.py` first, then `host.py`."""

from holdfast.host.contract import (
    Accepted,
    CompactedStretch,
    ContextView,
    HostOptions,
    HostParts,
    HostStatus,
    Numbered,
    OpenAsk,
    SessionChange,
    SessionStatus,
    Span,
    TurnView,
)
from holdfast.host.host import Host

__all__ = [
    "Accepted",
    "CompactedStretch",
    "ContextView",
    "Host",
    "HostOptions",
    "HostParts",
    "HostStatus",
    "Numbered",
    "OpenAsk",
    "SessionChange",
    "SessionStatus",
    "Span",
    "TurnView",
]
