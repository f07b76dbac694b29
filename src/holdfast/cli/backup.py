"""`holdfast backup`: copy the live database to a new file."""

from pathlib import Path

from holdfast.wiring import existing_store, load_settings


def backup(target: Path) -> None:
    """Copy the conversations to a new file, consistent as of one moment.

    Holdfast may be running meanwhile. The store is the one of HOLDFAST_STORE_URL, else the one in the
    data folder.

    Parameters
    ----------
    target
        The file to write; it must not exist yet.

    """
    with existing_store(load_settings()) as db:
        db.backup(target)
        print(f"copied {db.location} to {target}")  # noqa: T201 - the result of the command
