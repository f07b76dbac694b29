"""The name under which Holdfast is installed, and the command that adds an optional part to it.

The import and the command are `holdfast`; `holdfast` in the package index is another program.
"""

DISTRIBUTION = "holdfast-agent"


def install_command(extra: str) -> str:
    """Return the command that installs Holdfast with an optional part, such as `postgres`."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"
