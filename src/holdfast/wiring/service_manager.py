"""Tells the service manager how this process stands, by systemd's protocol (`Type=notify`)."""

import os
import socket
from contextlib import suppress

READY = "READY=1"
STOPPING = "STOPPING=1"


def tell_service_manager(state: str) -> None:
    """Send one state; nothing happens where no service manager asked for it."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    name = f"\0{address[1:]}" if address.startswith("@") else address
    # A service manager that can't be told is no reason to serve nobody.
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.sendto(state.encode(), name)
