"""`holdfast check`: look for damage in the database."""

from holdfast.core.errors import DatabaseDamaged
from holdfast.wiring import existing_store, has_store, load_settings


def check() -> None:
    """Read the whole store and say whether it is sound.

    HOLDFAST_STORE_URL names the store; by default it is in the data folder.
    """
    settings = load_settings()
    if not has_store(settings):
        print("there are no conversations yet, so there is nothing to check")  # noqa: T201 - the result
        return
    with existing_store(settings) as db:
        problems = db.check()
        if problems:
            raise DatabaseDamaged(db.location, "; ".join(problems), db.recovery)
        print(f"{db.location} is sound")  # noqa: T201 - the result of the command
