"""The slash commands about the agent's work: taking it back, what changed in files, its cost, its tools."""

from holdfast.cli.terminal.chat import Chat
from holdfast.core.clean_text import one_line
from holdfast.core.errors import InvalidInput
from holdfast.core.messages import text_of
from holdfast.host import SessionHost
from holdfast.sessions.contract import StoredMessage


async def last_said(host: SessionHost, session_id: str) -> StoredMessage:
    """The last message of the person in a conversation."""
    stored = await host.records.messages(session_id)
    last = next((each for each in reversed(stored) if each.message["role"] == "user"), None)
    if last is None:
        raise InvalidInput("there is no message to go back to in this conversation")
    return last


class WorkCommands:
    """Each method is the command of its name."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat

    async def undo(self, _: str) -> None:
        session_id = self._chat.idle()
        last = await last_said(self._chat.host, session_id)
        await self._chat.attach(await self._chat.host.truncate(session_id, before=last.seq))
        self._chat.say(f"Taken back: {one_line(text_of(last.message), 60)}", style="quiet")

    async def tools(self, _: str) -> None:
        host = self._chat.host
        if host.model is not None and not host.model.calls_tools:
            self._chat.say("This model calls no tools. Others have these:", style="warning")
        width = self._chat.screen.width - 1
        for name, about in host.tools:
            self._chat.say(one_line(f"{name:<16} {about}", width, squeeze=False))
