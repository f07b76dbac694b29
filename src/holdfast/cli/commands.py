"""The list of commands, each from its own file."""

from cyclopts import App

from holdfast.cli.backup import backup
from holdfast.cli.check import check

app = App(
    name="holdfast",
    help="An agent that keeps its word.",
    version_flags=["--version"],
    # `main` says it, as it says every other end.
    suppress_keyboard_interrupt=False,
)
app.command(backup)
app.command(check)
