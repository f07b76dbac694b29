"""What the host refuses."""

from holdfast.core.errors.groups import Refused


class HostClosed(Refused):
    """The host is shutting down and takes no more messages; nothing was stored."""

    def __init__(self) -> None:
        super().__init__(
            "Holdfast is shutting down and takes no more messages or wishes; this one was not stored"
        )


class SessionElsewhere(Refused):
    """Another process runs this session; what was asked can only be done there, or once it is idle."""

    def __init__(self, session_id: str, holder: str) -> None:
        super().__init__(f"session {session_id!r} is run by {holder}; try again when it is idle there")
        self.session_id = session_id


class WishInterrupted(Refused):
    """What was asked of a session between its turns was stopped before it was done."""

    def __init__(self) -> None:
        super().__init__("it was interrupted before it was done; what was stored before is kept")
