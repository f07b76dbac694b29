"""Runs sessions for every surface. Read `contract.py` first, then `host.py`."""

from holdfast.host.contract import (
    Accepted,
    Beginning,
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
    "Beginning",
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
