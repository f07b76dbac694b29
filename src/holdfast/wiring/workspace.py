"""Finds the folder in which the agent works, and decides whether a person chose it (S1).

A person chooses a project by starting Holdfast in it. A shell or a service manager may start in `/`, in a
home folder or in a folder with Holdfast's own files: such a folder is no workspace until a person names it.
"""

import os
import pwd
from contextlib import suppress
from pathlib import Path

from holdfast.core.errors import InvalidInput
from holdfast.core.own_files import OwnFiles
from holdfast.core.settings import Settings
from holdfast.wiring.contract import Workspace
from holdfast.wiring.folders import own_folders


def workspace_of(settings: Settings, started_in: Path | None = None) -> Workspace:
    """The workspace: the folder that the settings name, or the folder in which the program was started.

    An editor names the folder that it works in instead (`started_in`); the rule for trust is the same.
    """
    named = settings.tools.workspace
    try:
        chosen = Path(os.path.realpath(Path(named).expanduser() if named else Path.cwd()))
        folder = chosen if started_in is None else Path(os.path.realpath(started_in))
    except (OSError, RuntimeError) as cause:
        raise InvalidInput(f"the workspace {named or 'here'} can't be used: {cause}") from cause
    if not folder.is_dir():
        raise InvalidInput(f"the workspace {folder} is not a folder; tools.workspace or --workspace names it")
    return Workspace(folder, bool(named) and folder == chosen, _warning(folder))


def workspace_problem(folder: str) -> str:
    """Why a folder can't be the workspace of a conversation; empty when it can."""
    path = Path(folder)
    if not path.is_absolute():
        return f"a workspace is named by its whole path, from / on, and {folder!r} is not"
    real = Path(os.path.realpath(path))
    if not real.is_dir():
        return f"the workspace {folder} is not a folder on the machine of this server"
    warning = _warning(real)
    return f"the folder {folder} {warning}; choose a project inside it" if warning else ""


def with_workspace(settings: Settings, folder: str) -> Settings:
    """The settings with the workspace from an option, if the option is given."""
    if not folder:
        return settings
    return settings.model_copy(update={"tools": settings.tools.model_copy(update={"workspace": folder})})


def _warning(folder: Path) -> str:
    if folder == Path(folder.anchor):
        return "is the whole file system"
    homes = _homes()
    if folder in homes or any(_is_beside(folder, home) for home in homes):
        return "is a home folder"
    if any(home.is_relative_to(folder) for home in homes):
        return "holds home folders"
    if OwnFiles.of(own_folders()).within(folder):
        return "holds Holdfast's own files"
    return ""


def _homes() -> set[Path]:
    """The home folders of the current user: the variable HOME may differ from the system's entry."""
    homes = {Path(os.path.realpath(Path.home()))}
    with suppress(KeyError):  # a container may run under a number without a name
        homes.add(Path(os.path.realpath(pwd.getpwuid(os.geteuid()).pw_dir)))
    return homes - {Path("/")}


def _is_beside(folder: Path, home: Path) -> bool:
    """Whether a folder is the home of another user: it is next to a home, in a folder for homes."""
    return folder.parent == home.parent and home.parent.name in ("home", "Users")
