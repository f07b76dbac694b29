"""The list of commands, each from its own file, imported when it is run or its help is shown."""

from cyclopts import App

app = App(
    name="holdfast",
    help="An agent that keeps its word. Without a command: chat.",
    version_flags=["--version"],
    # `main` says it, as it says every other end.
    suppress_keyboard_interrupt=False,
)
app.command("holdfast.cli.chat:chat", name="chat")
app.command("holdfast.cli.ask:ask", name="ask")
app.command("holdfast.cli.backup:backup", name="backup")
app.command("holdfast.cli.check:check", name="check")


@app.default
def chat_by_default() -> None:
    """Talk with the agent."""
    from holdfast.cli.chat import chat

    chat()
