"""`holdfast backup`: copy the live database to a new file."""

from pathlib import Path

from holdfast.core.errors import InvalidInput
from holdfast.wiring import existing_store, has_store, load_settings


def backup(target: Path) -> None:
    """Copy the conversations to a new file, consistent as of one moment.

    Holdfast may run at the same time. HOLDFAST_STORE_URL names the store; by default it is in the data
    folder.

    Parameters
    ----------
    target
        The file to write; it must not exist yet.

    """
    settings = load_settings()
    if not has_store(settings):
        raise InvalidInput("there are no conversations yet; nothing was copied")
    with existing_store(settings) as db:
        db.backup(target)
        print(f"copied {db.location} to {target}")  # noqa: T201 - the result of the command
