"""Asks on the terminal whether to work in a folder that is not a project, once for each folder (S1)."""

from pathlib import Path

from holdfast.cli.output import show
from holdfast.core.errors import InvalidInput
from holdfast.core.settings import Settings
from holdfast.wiring import data_folder
from holdfast.wiring.contract import Workspace
from holdfast.wiring.workspace import with_workspace, workspace_of

REMEMBERED = "asked-workspaces"
SUGGESTED = "holdfast-work"


def confirm_workspace(settings: Settings) -> Settings:
    """The settings, with another workspace if the person chooses one; may end the program."""
    workspace = workspace_of(settings)
    if workspace.trusted or str(workspace.folder) in _remembered():
        return settings
    suggested = _suggested(workspace)
    show(f"{workspace.folder} {workspace.warning}, not a project.")
    show("  g  go on here: the agent asks about every file")
    show(f"  w  work in {suggested}" + ("" if suggested.exists() else ", which is made now"))
    show("  or type the path of another folder; q leaves")
    while True:
        answer = _answer()
        if answer in ("", "g"):
            _remember(workspace.folder)
            return settings
        if answer == "q":
            raise SystemExit(0)
        try:
            return _chosen(settings, suggested if answer == "w" else Path(answer), make=answer == "w")
        except InvalidInput as problem:
            show(f"✗ {problem}")


def _answer() -> str:
    try:
        return input("g, w, q or a path [g] > ").strip()
    except EOFError:
        return "q"


def _chosen(settings: Settings, folder: Path, *, make: bool) -> Settings:
    if make:
        try:
            folder.mkdir(exist_ok=True)
        except OSError as cause:
            raise InvalidInput(f"{folder} can't be made: {cause.strerror}") from cause
    chosen = with_workspace(settings, str(folder))
    workspace_of(chosen)
    return chosen


def _suggested(workspace: Workspace) -> Path:
    below = workspace.folder if workspace.warning == "is a home folder" else Path.home()
    return below / SUGGESTED


def _remembered() -> list[str]:
    try:
        return (data_folder() / REMEMBERED).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []


def _remember(folder: Path) -> None:
    try:
        data_folder().mkdir(parents=True, exist_ok=True)
        with (data_folder() / REMEMBERED).open("a", encoding="utf-8") as file:
            file.write(f"{folder}\n")
    except OSError:
        return  # it is asked again
