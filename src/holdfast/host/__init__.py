"""Runs sessions for every surface. Read `contract.py` first, then `host.py`."""

from holdfast.host.contract import About, Accepted, HostOptions, HostParts, HostStatus, Numbered, SessionStatus
from holdfast.host.host import Host

__all__ = ["About", "Accepted", "Host", "HostOptions", "HostParts", "HostStatus", "Numbered", "SessionStatus"]
