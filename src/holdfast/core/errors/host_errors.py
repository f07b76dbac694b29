"""Errors of the host."""

from holdfast.core.errors.groups import HoldfastError, Refused


class HostNotStarted(Refused, AttributeError):
    """The host has not been entered yet; its store and its model are opened by `async with host`."""

    def __init__(self) -> None:
        super().__init__("this host is not started yet: use it inside `async with host:`")


class HostClosed(Refused):
    """The host is shutting down and takes no more messages; nothing was stored."""

    def __init__(self) -> None:
        super().__init__(
            "Holdfast is shutting down and takes no more messages or commands; this one was not stored"
        )


class SessionElsewhere(Refused):
    """Another process runs this session. The request can succeed there, or when the session is idle."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"session {session_id!r} is run by another process; try again when it is idle there")
        self.session_id = session_id


class TurnError(HoldfastError):
    """A turn ended without an answer; `kind` is the class of its error, which stayed with the turn."""

    def __init__(self, message: str, kind: type[HoldfastError] = HoldfastError) -> None:
        super().__init__(message)
        self.kind = kind


class CommandInterrupted(Refused):
    """A command for a session was stopped before it was done."""

    def __init__(self) -> None:
        super().__init__("the command was interrupted before it was done; everything stored before is kept")
