"""What wiring offers to the surfaces, and `Workspace`, the folder in which an agent works.

Surfaces import the functions of `holdfast.wiring` and get finished objects back. Each file builds one of
them:

- `settings_loader.py`: `Settings`, from the settings file and the environment
- `folders.py`: where data, settings and logs are
- `store_opener.py`: `SessionDB`, and the watchdog for the exit
- `model_opener.py`: the `Model`; `model_switch.py` replaces it while the program runs
- `memory_setup.py`: `MemoryManager` with its providers; `memory_completion.py` lets them ask the model
- `workspace.py`: `Workspace`; `own_files.py` and `file_rights.py` protect Holdfast's own files
- `settings_host.py`: `Host`, with all of the above, or of a program's own parts (`library_host.py`)
- `library_agent.py`: `Agent` for programs; `library_models.py` and `library_memory.py` open what it names
- `graceful_stop.py`: `open_host`, a host for one command, which closes within a time limit

Only wiring reads the environment. No other package imports a concrete class of another one just to build it.
"""

from dataclasses import dataclass
from pathlib import Path

from holdfast.core.errors import InvalidInput

HOW_TO_CHOOSE = "start in a project folder, or name one with --workspace or the setting tools.workspace"


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folder in which an agent works, and a warning when it does not look like a project."""

    folder: Path
    named: bool
    """Whether a person named it, by a setting or an option."""
    warning: str
    """What the folder is instead of a project, such as "is a home folder"; empty for a project."""

    @property
    def trusted(self) -> bool:
        """Whether tools may read and write its files without asking."""
        return self.named or not self.warning

    @property
    def label(self) -> str:
        """The folder as a part of a sentence."""
        return f"the workspace {self.folder}" if self.trusted else f"{self.folder} (not a chosen workspace)"

    @property
    def description(self) -> str:
        """The workspace, or why there is none, for a person to read."""
        return str(self.folder) if self.trusted else f"none: {self.folder} {self.warning}"

    def notes(self, *, attended: bool = True) -> tuple[str, ...]:
        """Notes to show at the start; `attended` says whether a person can be asked."""
        if not self.warning:
            return ()
        if self.named:
            return (f"The workspace {self.folder} {self.warning}; tools use its files without asking.",)
        asked = "the agent asks about every file in it"
        refused = "the agent may not use the files in it: this needs approval, and nobody can be asked here"
        note = f"{self.folder} {self.warning}, so {asked if attended else refused}"
        return (f"{note}. For a workspace, {HOW_TO_CHOOSE}.",)

    def require_trusted(self) -> None:
        """Raise `InvalidInput` unless the folder is trusted: for a program that nobody watches."""
        if not self.trusted:
            raise InvalidInput(
                f"{self.folder} {self.warning}, and it would be the agent's workspace. Nothing was started. "
                f"{HOW_TO_CHOOSE[0].upper()}{HOW_TO_CHOOSE[1:]} (HOLDFAST_TOOLS_WORKSPACE=PATH); "
                f"`--workspace {self.folder}` chooses this folder."
            )
