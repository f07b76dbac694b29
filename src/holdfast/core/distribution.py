"""The name under which Holdfast is installed, the command that adds an optional part, and the name clash.

The import and the command are `holdfast`; `holdfast` in the package index is another program. Both packages
have a file `holdfast/__init__.py`, so whichever was installed last wins.
"""

from collections.abc import Sequence
from types import ModuleType

DISTRIBUTION = "holdfast-agent"
OTHER = "holdfast"
REPAIR = f"pip uninstall -y {OTHER}; pip install --force-reinstall --no-deps {DISTRIBUTION}"


def install_command(extra: str) -> str:
    """Return the command that installs Holdfast with an optional part, such as `postgres`."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def overwritten_problem(package: ModuleType) -> str:
    """What to do when `holdfast/__init__.py` is not the one of Holdfast; empty when it is."""
    if "SessionDB" in getattr(package, "__all__", ()):
        return ""
    file = getattr(package, "__file__", None) or "holdfast/__init__.py"
    return (
        f"{file} is not the one of {DISTRIBUTION}: another package, called `{OTHER}`, has overwritten or "
        "removed it. Nothing was started, and no conversation was touched. "
        f"Repair it with: {REPAIR}. To use both programs, install each into an environment of its own."
    )


def other_package_note(folders: Sequence[str] | None = None) -> str:
    """A note for the case that the other package is installed beside Holdfast; empty when it is not.

    `folders` are those to look in; by default where Python imports from.
    """
    from importlib.metadata import distributions  # not at the top: each command would pay for it

    found = distributions(name=OTHER) if folders is None else distributions(name=OTHER, path=list(folders))
    other = next((each.version for each in found), "")
    if not other:
        return ""
    return (
        f"the package `{OTHER}` {other}, another program, is installed in this environment too, and both "
        "have a file holdfast/__init__.py. Holdfast works, the other one does not; updating or removing "
        f"that one breaks Holdfast. Give each an environment of its own, or remove it with: {REPAIR}"
    )
