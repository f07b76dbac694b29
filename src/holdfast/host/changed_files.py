"""`ChangedFiles`: what the turns of a conversation did to files, for people to see and to take back."""

from pathlib import Path

from holdfast.core.errors import TurnNotFound
from holdfast.host.contract import HostParts
from holdfast.host.conversation_status import open_asks
from holdfast.host.conversations import Conversations
from holdfast.host.store_calls import StoreCalls
from holdfast.process import off_loop
from holdfast.tools.file_diff import FileDiff
from holdfast.tools.file_history import UndoneFile
from holdfast.tools.text_files import text_at


class ChangedFiles:
    """The file changes of a host's conversations. Every method on the host's loop.

    Covered are the file tools, and of a command the files of the workspace that it names. A host whose tools
    record nothing has no changes.
    """

    def __init__(self, parts: HostParts, call: StoreCalls, conversations: Conversations) -> None:
        self._parts = parts
        self._call = call
        self._conversations = conversations

    async def changes(self, session_id: str, turn_id: str | None = None) -> list[FileDiff]:
        """What a turn, or all turns of a conversation, did to files, as diffs: one for each file."""
        await self._require(session_id, turn_id)
        history = self._parts.file_history
        if history is None:
            return []
        return await off_loop(self._parts.pools.work, history.changes, session_id, turn_id)

    async def changed_turns(self, session_id: str) -> list[str]:
        """The turns of a conversation that `changes` has something for."""
        if self._parts.file_history is None:
            return []
        return await self._call(self._parts.db.file_changes.changed_turns, session_id)

    async def undo(
        self, session_id: str, turn_id: str | None = None, *, start: int | None = None
    ) -> list[UndoneFile]:
        """Put files back as they were before a turn, or before the turns from a place in the conversation on.

        What was said stays. A file that was changed since is left as it is, and the answer says so. Refused
        while a turn of the conversation runs.
        """
        await self._require(session_id, turn_id)
        await self._conversations.idle(session_id)
        history = self._parts.file_history
        if history is None:
            return []
        return await off_loop(self._parts.pools.work, history.undo, session_id, turn_id, start)

    async def text_before(self, session_id: str, ask_id: str) -> str | None:
        """The text that is now in the file which an open approval is about to write; None: there is none.

        None also where another process runs the turn: the file may be on another disk.

        Holdfast's own files, which can be allowed only once, are not read for this.
        """
        if (await self._conversations.open(session_id)).running_turn is None:
            return None
        live = await self._call(self._parts.db.sessions.live_end, session_id)
        asks = open_asks(await self._call(self._parts.db.asks.open, live), self._parts.clock.now())
        for each in asks:
            if each.ask_id == ask_id and each.subject_kind == "write" and "always" in each.decisions:
                return await off_loop(self._parts.pools.work, text_at, Path(each.subject))
        return None

    async def _require(self, session_id: str, turn_id: str | None) -> None:
        """Raises `SessionNotFound`, and `TurnNotFound` for a turn that the conversation does not have."""

        def look() -> bool:
            turns = self._parts.db.file_changes.turns(session_id)
            return turn_id is None or turn_id in turns

        if not await self._call(look):
            raise TurnNotFound(turn_id or "")
