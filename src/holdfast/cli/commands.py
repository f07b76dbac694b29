"""The list of commands. Each has its own file, which is imported when the command or its help runs."""

from cyclopts import App

app = App(
    name="holdfast",
    help="An agent that keeps its word. Without a command: chat. --debug says more.",
    version_flags=["--version"],
    # `main` prints the message, as for every other end.
    suppress_keyboard_interrupt=False,
)
app.command("holdfast.cli.chat:chat", name="chat", help="Talk with the agent.")
app.command("holdfast.cli.ask:ask", name="ask", help="Ask one question; made for pipes.")
app.command("holdfast.web.command:web", name="web", help="Serve the web page and the HTTP API.")
app.command("holdfast.cli.worker:worker", name="worker", help="Run what waits in PostgreSQL.", show=False)
app.command("holdfast.gateway.command:gateway", name="gateway", help="Serve and set up chat platforms.")
app.command("holdfast.acp.command:acp", name="acp", help="Answer an editor (Agent Client Protocol).")
app.command("holdfast.cli.sessions:sessions", name="sessions", help="Conversations: list, show, search, …")
app.command("holdfast.cli.schedule:schedule", name="schedule", help="Messages at certain times.")
app.command("holdfast.cli.memory:memory", name="memory", help="What is remembered, owed and set aside.")
app.command("holdfast.cli.model:model", name="model", help="Show, list, choose and test the model.")
app.command("holdfast.cli.usage:usage", name="usage", help="Tokens and cost, by day, model, conversation.")
app.command("holdfast.cli.config:config", name="config", help="Show and change the settings.")
app.command("holdfast.cli.doctor:doctor", name="doctor", help="Check everything; says what to do.")
app.command("holdfast.cli.backup:backup", name="backup", help="Copy the conversations to a new file.")
app.command("holdfast.cli.import_store:import_store", name="import", help="Import from another agent.")
app.command("holdfast.cli.mcp:mcp", name="mcp", help="MCP servers, and Holdfast as one.", show=False)
app.command("holdfast.cli.store:store", name="store", help="Move the store to another database.", show=False)
app.command("holdfast.cli.users:users", name="users", help="Accounts of other people.", show=False)
app.command("holdfast.cli.check:check", name="check", help="Read the whole store and say if it is sound.")
# The list fits a screen of 24 lines; this one is used once.
app.register_install_completion_command(
    name="completion", help="Install completion for this shell.", show=False
)


@app.default
def chat_by_default() -> None:
    """Talk with the agent."""
    from holdfast.cli.start_chat import start_chat

    start_chat()
