"""The error tree, grouped by what the caller can do.

Every error raised on purpose is a `HoldfastError`. `Retryable`: the same call may succeed later.
`Refused`: the call doesn't fit the state it met, and the state is unchanged. `StoreFailure`: the store
can't serve, and says what was kept and what to do next. `ModelFailure`: a language model gave no answer.
"""


class HoldfastError(Exception):
    """Root of every error raised on purpose."""


class Retryable(HoldfastError):
    """The same call may succeed later."""


class Refused(HoldfastError):
    """The call doesn't fit the present state. Nothing was changed."""


class InvalidInput(HoldfastError, ValueError):
    """What was passed in can't be stored or understood. Nothing was changed."""


class SettingsInvalid(InvalidInput):
    """A setting is unknown or has a value that doesn't fit."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{name}: {problem}" for name, problem in problems))
        self.problems = problems


# process


class PoolSaturated(Retryable):
    """Every worker is busy and the backlog is full; nothing was queued."""

    def __init__(self, pool: str, workers: int, backlog: int) -> None:
        super().__init__(
            f"{pool} has all {workers} workers busy and {backlog} calls waiting; try again later"
        )
        self.pool = pool


class PoolClosed(HoldfastError):
    """The pool takes no more work; nothing was queued."""

    def __init__(self, pool: str) -> None:
        super().__init__(f"{pool} is closed and takes no more work")
        self.pool = pool


# sessions: what a caller asked for doesn't fit


class SessionNotFound(Refused):
    def __init__(self, session_id: str) -> None:
        super().__init__(f"there is no session {session_id!r}")
        self.session_id = session_id


class SessionExists(Refused):
    def __init__(self, session_id: str) -> None:
        super().__init__(f"session {session_id!r} already exists")
        self.session_id = session_id


class SessionEnded(Refused):
    """The session takes no more messages; `live_end` is where its conversation goes on, if it does."""

    def __init__(self, session_id: str, end_reason: str, live_end: str | None = None) -> None:
        goes_on = f"; the conversation goes on in {live_end!r}" if live_end else ""
        super().__init__(f"session {session_id!r} has ended ({end_reason}){goes_on}")
        self.session_id = session_id
        self.end_reason = end_reason
        self.live_end = live_end


class SessionBusy(Refused):
    """The session can't end yet: a turn runs in it, or messages wait that would be left behind."""

    def __init__(self, session_id: str, busy_with: str) -> None:
        super().__init__(f"session {session_id!r} can't end: {busy_with}")
        self.session_id = session_id


class AlreadyContinued(Refused):
    """Another rotation won: the parent already has its one continuation, to be adopted."""

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
    def __init__(self, session_id: str, turn_id: str) -> None:
        super().__init__(f"session {session_id!r} already runs turn {turn_id!r}")
        self.session_id = session_id
        self.turn_id = turn_id


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


class DeliveryNotFound(Refused):
    def __init__(self, delivery_id: int) -> None:
        super().__init__(f"there is no delivery {delivery_id}")
        self.delivery_id = delivery_id


class NotSetAside(Refused):
    """Only a delivery that was set aside can be retried or dropped by hand."""

    def __init__(self, delivery_id: int, state: str) -> None:
        super().__init__(f"delivery {delivery_id} is {state}; only one set aside can be retried or dropped")
        self.delivery_id = delivery_id
        self.state = state


class LeaseLost(Refused):
    """The lease ran out and may belong to another by now; what it guarded was not done."""

    def __init__(self, name: str, holder: str) -> None:
        super().__init__(f"{holder!r} no longer holds the lease {name!r}")
        self.name = name
        self.holder = holder


# sessions: the store can't serve


class StoreFailure(HoldfastError):
    """The store can't serve. The message says what was kept and what to do next."""


class StoreClosed(StoreFailure):
    def __init__(self, location: str) -> None:
        super().__init__(f"the store {location} is closed; this call stored nothing")


class StoreBusy(StoreFailure, Retryable):
    """Others kept the store, or a row of it, locked longer than the configured patience."""

    def __init__(self, location: str, patience: float) -> None:
        super().__init__(
            f"{location} was locked by others for more than {patience:g} s. "
            "This call stored nothing; all earlier ones are kept. "
            "Look for a backup or another program that holds it, then try again."
        )


class OutcomeUnknown(StoreFailure):
    """The connection broke while a change was being committed: it may be stored or not."""

    def __init__(self, location: str, cause: str) -> None:
        super().__init__(
            f"the connection to {location} broke in the middle of a commit: {cause}. Whether this call "
            "was stored is not known; what was acknowledged before is kept. Look before repeating it."
        )


class StoreUnreachable(StoreFailure, Retryable):
    """The database server can't be reached; this call stored nothing."""

    def __init__(self, location: str, cause: str) -> None:
        super().__init__(
            f"can't reach {location}: {cause}. This call stored nothing; all earlier ones are kept. "
            "Check that the server runs and that the address is right, then try again."
        )


class StoreInvalid(StoreFailure):
    """The file or server can't be used as a store as it is."""


class NotADatabase(StoreInvalid):
    def __init__(self, location: str) -> None:
        super().__init__(
            f"{location} is not a Holdfast database. It was left as it is. "
            "Choose another path, or move that file away."
        )


RECOVER_A_FILE = (
    "Copy it away together with its -wal file, restore a backup, or recover what is readable with: "
    "sqlite3 FILE .recover"
)
RECOVER_A_SERVER = "Stop writing to it and restore a backup of the server."
WRITE_A_FILE = (
    "Check the permissions of the file and of its folder: the -wal and -shm files beside it must be "
    "writable too."
)


class DatabaseDamaged(StoreInvalid):
    def __init__(self, location: str, detail: str, remedy: str = RECOVER_A_FILE) -> None:
        super().__init__(f"{location} is damaged ({detail}). It was not overwritten. {remedy}")


class SchemaTooNew(StoreInvalid):
    def __init__(self, location: str, found: str, known: str) -> None:
        super().__init__(
            f"{location} was written by a newer Holdfast (schema {found}; this one knows {known}). "
            "Nothing was changed. Upgrade Holdfast, or open another database."
        )


class StoreTooOld(StoreInvalid):
    """The engine itself lacks what Holdfast needs."""

    def __init__(self, engine: str, found: str, needed: str) -> None:
        super().__init__(
            f"{engine} {found} is too old: Holdfast needs {needed} or newer. Nothing was changed."
        )


class StoreReadOnly(StoreInvalid):
    def __init__(self, location: str, remedy: str = WRITE_A_FILE) -> None:
        super().__init__(f"{location} can't be written. What it holds is kept. {remedy}")


class StoreUnopenable(StoreInvalid):
    def __init__(self, location: str, cause: str) -> None:
        super().__init__(f"can't open {location}: {cause}. Nothing was changed.")


class DiskFull(StoreFailure, Retryable):
    def __init__(self, location: str) -> None:
        super().__init__(
            f"the disk under {location} is full. This call stored nothing; all earlier ones are kept. "
            "Free some space and try again."
        )


class ConstraintBroken(Refused):
    """A constraint of the schema refused the call; it stored nothing."""

    def __init__(self, location: str, cause: str) -> None:
        super().__init__(f"{location} refused a change that would break its rules: {cause}")


class StoreFault(StoreFailure):
    """The engine failed in a way that has no better name here."""

    def __init__(self, location: str, cause: str) -> None:
        super().__init__(f"{location} failed: {cause}. This call stored nothing; all earlier ones are kept.")


class BackupRefused(StoreFailure):
    """The backup wasn't written."""


class ImportRefused(InvalidInput):
    """The file can't be imported; nothing of it was stored."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}. Nothing was imported.")
        self.line = line


# memory


class ProviderUnavailable(Retryable):
    """A memory provider can't be reached now; what it is owed stays owed."""

    def __init__(self, provider: str, retry_after: float | None = None) -> None:
        super().__init__(f"{provider} is unavailable")
        self.provider = provider
        self.retry_after = retry_after


class Undeliverable(Refused):
    """A provider will never take this turn; it is set aside at once instead of tried again."""


class ProviderInvalid(InvalidInput):
    """What was given as a memory provider isn't one; it is left out."""

    def __init__(self, provider: str, problem: str) -> None:
        super().__init__(f"memory provider {provider!r} is left out: {problem}")
        self.provider = provider


class MemoryClosed(Refused):
    """Memory is shutting down and takes no more calls."""

    def __init__(self, provider: str) -> None:
        super().__init__(f"the memory provider {provider!r} is shutting down and takes no more calls")
        self.provider = provider


class BoundaryFailed(Retryable):
    """A provider failed at a boundary; the stretch stays uncommitted and is tried again."""

    def __init__(self, failures: dict[str, str]) -> None:
        said = "; ".join(f"{name}: {problem}" for name, problem in failures.items())
        super().__init__(f"not committed to memory: {said}")
        self.failures = failures


# models


class ModelFailure(HoldfastError):
    """A language model gave no usable answer."""


class ModelUnreachable(ModelFailure, Retryable):
    """No answer came: the server is down, overloaded, or took too long."""

    def __init__(self, model: str, problem: str, retry_after: float | None = None) -> None:
        super().__init__(f"{model} did not answer: {problem}")
        self.model = model
        self.problem = problem
        self.retry_after = retry_after


class ModelBusy(ModelUnreachable):
    """The server asked for fewer requests."""


class StreamBroken(ModelUnreachable):
    """The answer stopped in the middle; what had come is kept."""


class AnswerEmpty(ModelUnreachable):
    """The model ended its answer without a word or a tool call."""


class KeyRejected(ModelFailure):
    def __init__(self, model: str, problem: str) -> None:
        super().__init__(f"the key for {model} was rejected: {problem}. Set a valid one and try again.")
        self.model = model


class NoCredit(ModelFailure):
    def __init__(self, model: str, problem: str) -> None:
        super().__init__(f"the account for {model} has no credit left: {problem}")
        self.model = model


class ModelUnknown(ModelFailure):
    def __init__(self, model: str, problem: str) -> None:
        super().__init__(f"the server knows no model {model!r}: {problem}. Choose one that it offers.")
        self.model = model


class ContextTooLong(ModelFailure):
    """The conversation doesn't fit the model's window."""

    def __init__(self, model: str, problem: str) -> None:
        super().__init__(f"the conversation is too long for {model}: {problem}")
        self.model = model


class RequestRejected(ModelFailure):
    """The server refused the request for a reason that repeating it won't change."""

    def __init__(self, model: str, problem: str) -> None:
        super().__init__(f"{model} refused the request: {problem}")
        self.model = model


class ModelMissing(ModelFailure):
    """There is nothing to run the model with; says what to install or set."""


class ModelFileInvalid(ModelFailure):
    """A file of weights can't be run as it is."""

    def __init__(self, file: str, problem: str) -> None:
        super().__init__(
            f"the model file {file} can't be used: {problem}. It was left as it is. "
            "Fetch it again, or name another file."
        )
        self.file = file


# tools


class ToolInvalid(InvalidInput):
    """A function or a server can't be offered as a tool."""

    def __init__(self, tool: str, problem: str) -> None:
        super().__init__(f"tool {tool!r} can't be used: {problem}")
        self.tool = tool
        self.problem = problem


class ToolArgumentsInvalid(InvalidInput):
    """The model's arguments don't fit the tool's schema; the model is told."""

    def __init__(self, tool: str, problem: str) -> None:
        super().__init__(f"the arguments of {tool} can't be used: {problem}")
        self.tool = tool


class ToolFailed(Refused):
    """A tool says why it could not do what was asked; the model reads the message."""


# host


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
