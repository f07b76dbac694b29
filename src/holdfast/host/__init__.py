"""Runs sessions for every surface. Read `contract.py` first, then `session_host.py`."""

from holdfast.host.contract import (
    Accepted,
    AfterCrash,
    Beginning,
    CompactedStretch,
    ContextSize,
    ContextView,
    ConversationStatus,
    HostOptions,
    HostParts,
    HostStatus,
    Numbered,
    OpenAsk,
    SpanView,
    TurnDetails,
)
from holdfast.host.session_host import SessionHost
from holdfast.host.store_calls import limit_reads
from holdfast.host.turn_handle import AskOptions, AskResult, TurnHandle, turn_error
from holdfast.sessions.contract import API_SOURCE

__all__ = [
    "API_SOURCE",
    "Accepted",
    "AfterCrash",
    "AskOptions",
    "AskResult",
    "Beginning",
    "CompactedStretch",
    "ContextSize",
    "ContextView",
    "ConversationStatus",
    "HostOptions",
    "HostParts",
    "HostStatus",
    "Numbered",
    "OpenAsk",
    "SessionHost",
    "SpanView",
    "TurnDetails",
    "TurnHandle",
    "limit_reads",
    "turn_error",
]
