"""Runs sessions for every surface. Read `contract.py` first, then `host.py`."""

from holdfast.host.contract import (
    Accepted,
    HostOptions,
    HostParts,
    HostStatus,
    Numbered,
    OpenAsk,
    SessionChange,
    SessionStatus,
)
from holdfast.host.host import Host

__all__ = [
    "Accepted",
    "Host",
    "HostOptions",
    "HostParts",
    "HostStatus",
    "Numbered",
    "OpenAsk",
    "SessionChange",
    "SessionStatus",
]
