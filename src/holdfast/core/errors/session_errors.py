"""Calls that the session store refuses. Nothing was changed."""

from holdfast.core.errors.groups import InvalidInput, Refused
from holdfast.core.sizes import size_text


class SessionNotFound(Refused):
    def __init__(self, session_id: str) -> None:
        super().__init__(f"there is no session {session_id!r}")
        self.session_id = session_id


class SessionExists(Refused):
    def __init__(self, session_id: str, and_so: str = "") -> None:
        super().__init__(f"session {session_id!r} already exists{and_so}")
        self.session_id = session_id


class WrongScope(Refused):
    """The session belongs to another person or room than the one it was asked for."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"session {session_id!r} belongs to somebody else")
        self.session_id = session_id


class SessionEnded(Refused):
    """The session takes no more messages. `live_end` is the session that continues it, if there is one."""

    def __init__(self, session_id: str, end_reason: str, live_end: str | None = None) -> None:
        goes_on = f"; the conversation goes on in {live_end!r}" if live_end else ""
        super().__init__(f"session {session_id!r} has ended ({end_reason}){goes_on}")
        self.session_id = session_id
        self.end_reason = end_reason
        self.live_end = live_end


class SessionBusy(Refused):
    """The session can't end yet: a turn runs in it, or messages wait in it."""

    def __init__(self, session_id: str, busy_with: str, *, wanted: str = "end") -> None:
        super().__init__(f"session {session_id!r} can't {wanted}: {busy_with}")
        self.session_id = session_id


class StillOwed(Refused):
    """A conversation was not deleted, because turns of it wait for delivery.

    `owed` counts them by provider.
    """

    def __init__(self, session_id: str, owed: dict[str, int]) -> None:
        counted = " and ".join(f"{_turns(count)} to {name}" for name, count in owed.items())
        super().__init__(
            f"the conversation of session {session_id!r} was not deleted: memory is still owed {counted}. "
            "Try again when they are delivered, settle those set aside, or force it"
        )
        self.session_id = session_id
        self.owed = owed


class AlreadyContinued(Refused):
    """Another process already rotated this session. The caller continues in `child_id`."""

    def __init__(self, session_id: str, child_id: str) -> None:
        super().__init__(f"session {session_id!r} already continues in {child_id!r}")
        self.session_id = session_id
        self.child_id = child_id


class TurnNotFound(Refused):
    def __init__(self, turn_id: str) -> None:
        super().__init__(f"there is no turn {turn_id!r}")
        self.turn_id = turn_id


class TurnNotRunning(Refused):
    def __init__(self, turn_id: str, state: str) -> None:
        super().__init__(f"turn {turn_id!r} is {state}; only a running turn can go on or end")
        self.turn_id = turn_id
        self.state = state


class TurnAlreadyRunning(Refused):
    def __init__(self, session_id: str, turn_id: str, told: str = "") -> None:
        super().__init__(told or f"session {session_id!r} already runs turn {turn_id!r}")
        self.session_id = session_id
        self.turn_id = turn_id


class TurnCutOff(TurnAlreadyRunning):
    """A process ended in the middle of a turn, and what becomes of that turn is decided first."""

    def __init__(self, session_id: str, turn_id: str) -> None:
        super().__init__(
            session_id,
            turn_id,
            f"turn {turn_id!r} of session {session_id!r} was cut off when its process ended, and it comes "
            "first; nothing of this message was stored. `await agent.unfinished()` tells what it had done; "
            "then `agent.resume()` goes on with it, `agent.retry()` asks anew, `agent.drop()` ends it",
        )


class TurnExists(Refused):
    def __init__(self, turn_id: str) -> None:
        super().__init__(f"there is already a turn {turn_id!r}; a turn's id is used once")
        self.turn_id = turn_id


class NotWaiting(Refused):
    """The inbox message was taken or withdrawn before this call."""

    def __init__(self, inbox_id: int, state: str) -> None:
        super().__init__(f"inbox message {inbox_id} is {state}, not waiting here")
        self.inbox_id = inbox_id
        self.state = state


class NothingWaits(InvalidInput):
    """A turn was started without a message, and no message waits."""

    def __init__(self, session_id: str) -> None:
        super().__init__("nothing waits in this session; say what to do")
        self.session_id = session_id


class DeliveryNotFound(Refused):
    def __init__(self, delivery_id: int) -> None:
        super().__init__(f"there is no delivery {delivery_id}")
        self.delivery_id = delivery_id


class NotSetAside(Refused):
    """Only a delivery that was set aside can be retried or dropped by a person."""

    def __init__(self, delivery_id: int, state: str) -> None:
        super().__init__(f"delivery {delivery_id} is {state}; only one set aside can be retried or dropped")
        self.delivery_id = delivery_id
        self.state = state


class ChatPostNotFound(Refused):
    def __init__(self, post_id: int) -> None:
        super().__init__(f"there is no post {post_id}")
        self.post_id = post_id


class ChatPostSettled(Refused):
    """A person sends again what could not be delivered, and drops only what has not been sent."""

    def __init__(self, post_id: int, state: str) -> None:
        super().__init__(f"post {post_id} is {state}; only what could not be delivered waits for a person")
        self.post_id = post_id
        self.state = state


class ScheduleNotFound(Refused):
    def __init__(self, schedule_id: int) -> None:
        super().__init__(f"there is no schedule {schedule_id}")
        self.schedule_id = schedule_id


class WrongScheduleState(Refused):
    """A schedule that is paused can't be paused again, and one that is active can't be resumed."""

    def __init__(self, schedule_id: int, state: str, wanted: str) -> None:
        super().__init__(f"schedule {schedule_id} is {state}; it can't be {wanted}")
        self.schedule_id = schedule_id
        self.state = state


class LeaseLost(Refused):
    """The lease belongs to another process now, or was released. The guarded operation was not done.

    The message does not show the name and the holder of the lease: these are for logs.
    """

    def __init__(self, name: str, holder: str) -> None:
        super().__init__(
            "another process has taken this over, so nothing more was written here; everything stored before "
            "is kept"
        )
        self.name = name
        self.holder = holder


def _turns(count: int) -> str:
    return "1 turn" if count == 1 else f"{count} turns"


class UserNotFound(Refused):
    def __init__(self, user: str) -> None:
        super().__init__(f"there is no account {user!r:.100}; nothing was changed")
        self.user = user


class UserExists(Refused):
    def __init__(self, name: str) -> None:
        super().__init__(f"there is an account with the name {name!r:.100} already; nothing was changed")
        self.name = name


class UserDisabled(Refused):
    def __init__(self, name: str) -> None:
        super().__init__(f"the account {name!r:.100} is disabled; nothing was changed")
        self.name = name


class UserInUse(Refused):
    """The account can't be removed while it has conversations."""

    def __init__(self, name: str, conversations: int) -> None:
        super().__init__(
            f"the account {name!r:.100} has {conversations} conversations; nothing was removed. "
            "Disable it, or delete them with it"
        )
        self.name = name
        self.conversations = conversations


class TooManyTokens(Refused):
    """The account has as many tokens as may count at once."""

    def __init__(self, name: str, most: int) -> None:
        super().__init__(
            f"the account {name!r:.100} has {most} tokens that count, and may have no more; none was made. "
            "Revoke one that is not needed"
        )
        self.name = name
        self.most = most


class InvitationInvalid(Refused):
    def __init__(self) -> None:
        super().__init__(
            "this invitation is not valid: it was used, it has expired, or there is none. Nothing was changed"
        )


class DailyLimitReached(Refused):
    """An account has used up what it may use within 24 hours."""

    retry_after = 3600.0

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(
            f"this account has used its {limit:,} {what} of 24 hours. Nothing was stored; ask again later"
        )
        self.what = what
        self.limit = limit


class StorageLimitReached(Refused):
    """The conversations of an account have reached its limit of storage."""

    retry_after = 3600.0

    def __init__(self, used: int, limit: int) -> None:
        super().__init__(
            f"this account's conversations use {size_text(used)}; its limit is {size_text(limit)}. "
            "Nothing was stored; delete conversations, or ask who runs this installation for more"
        )
        self.used = used
        self.limit = limit
