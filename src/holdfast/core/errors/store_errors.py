"""Failures of the store. Each message says what was kept and what to do next."""

from holdfast.core.errors.groups import InvalidInput, Refused, Retryable, StoreFailure


class StoreClosed(StoreFailure):
    def __init__(self, location: str) -> None:
        super().__init__(f"the store {location} is closed; this call stored nothing")


class StoreBusy(StoreFailure, Retryable):
    """Other processes locked the store, or a row of it, for longer than the time limit."""

    def __init__(self, location: str, patience: float) -> None:
        super().__init__(
            f"other processes locked {location} for more than {patience:g} s. "
            "This call stored nothing; all earlier ones are kept. "
            "Look for a backup or another program that uses it, then try again."
        )


class StatementCancelled(StoreFailure, Retryable):
    """The server ended a statement or a transaction: it has a time limit, or somebody asked for that."""

    def __init__(self, location: str, cause: str) -> None:
        super().__init__(
            f"{location} cancelled this call: {cause}. It stored nothing; all earlier ones are kept. "
            "Where the server, the database or the role has a time limit (statement_timeout, "
            "transaction_timeout), give Holdfast's role none or a longer one, then try again."
        )


class OutcomeUnknown(StoreFailure):
    """The connection broke while a change was being committed: it may be stored or not."""

    def __init__(self, location: str, cause: str) -> None:
        super().__init__(
            f"the connection to {location} broke in the middle of a commit: {cause}. Whether this call "
            "was stored is not known; everything acknowledged before is kept. Check before you repeat it."
        )


class StoreUnreachable(StoreFailure, Retryable):
    """The database server can't be reached; this call stored nothing."""

    def __init__(self, location: str, cause: str) -> None:
        super().__init__(
            f"can't reach {location}: {cause}. This call stored nothing; all earlier ones are kept. "
            "Check that the server runs and that the address is right, then try again."
        )


class ConnectionRefused(StoreFailure, Retryable):
    """The database server runs, and takes no connection now; this call stored nothing."""

    def __init__(self, location: str, cause: str) -> None:
        super().__init__(
            f"{location} takes no connection now: {cause}. This call stored nothing; all earlier ones are "
            "kept. Where there are too many connections, run fewer programs or raise the limit "
            "(max_connections, or CONNECTION LIMIT of the role or database), then try again.",
        )


class StoreGone(StoreFailure, Retryable):
    """The database was deleted, moved or replaced under the running program; it may come back."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}. This call stored nothing, and nothing is accepted meanwhile. {remedy}")


class StoreInvalid(StoreFailure):
    """The file or server can't be used as a store."""


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


class SchemaTooOld(StoreInvalid):
    def __init__(self, location: str, found: str, needed: str) -> None:
        super().__init__(
            f"{location} was written by a Holdfast too old for this one (schema {found}; the oldest that "
            f"can be upgraded is {needed}). Nothing was changed. Open it with a release in between first."
        )


class StoreTooOld(StoreInvalid):
    """The version of the engine is too old for Holdfast."""

    def __init__(self, engine: str, found: str, needed: str) -> None:
        super().__init__(
            f"{engine} {found} is too old: Holdfast needs {needed} or newer. Nothing was changed."
        )


class StoreReadOnly(StoreInvalid):
    def __init__(self, location: str, remedy: str = WRITE_A_FILE) -> None:
        super().__init__(f"{location} can't be written. Its content is kept. {remedy}")


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
    """The engine failed for another reason."""

    def __init__(self, location: str, cause: str) -> None:
        super().__init__(f"{location} failed: {cause}. This call stored nothing; all earlier ones are kept.")


class BackupRefused(StoreFailure):
    """The backup wasn't written."""


class ImportRefused(InvalidInput):
    """The file can't be imported; nothing of it was stored."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}. Nothing was imported.")
        self.line = line
