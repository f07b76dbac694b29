"""`holdfast check`: look for damage in the database."""

from holdfast.core.errors import DatabaseDamaged
from holdfast.wiring import existing_store, load_settings


def check() -> None:
    """Read the whole store and say whether it is sound.

    The store is the one of HOLDFAST_STORE_URL, else the one in the data folder.
    """
    with existing_store(load_settings()) as db:
        problems = db.check()
        if problems:
            raise DatabaseDamaged(db.location, "; ".join(problems), db.recovery)
        print(f"{db.location} is sound")  # noqa: T201 - the result of the command
