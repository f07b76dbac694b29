"""What an earlier life left behind is shown and asked about: cut-off turns and waiting messages (D10, I1)."""

import asyncio
import os
import socket

from holdfast.cli.clean_text import one_line
from holdfast.cli.terminal.chat import Chat
from holdfast.cli.terminal.slash import SlashCommands, text_of

LOOK_SECONDS = 0.5
CUT_OFF = {"c": "continue", "r": "retry", "d": "drop", "l": "leave"}
WAITED = {"r": "run", "w": "withdraw", "l": "leave"}


class Leftovers:
    """Asks about each thing once."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._asked: set[str] = set()

    async def watch(self) -> None:
        """Look now and, since a dead process holds its conversations for some seconds more, again."""
        asked_waiting = False
        while True:
            for session_id in list(self._chat.host.recovery.unfinished):
                await self._unfinished(session_id)
            if not asked_waiting:
                asked_waiting = True
                for session_id in (await self._chat.host.status()).waiting:
                    await self._waiting(session_id)
            await asyncio.sleep(LOOK_SECONDS)

    async def _unfinished(self, session_id: str) -> None:
        chat = self._chat
        if session_id in self._asked:
            return
        self._asked.add(session_id)
        found = await chat.host.unfinished(session_id)
        if found is None:
            return
        chat.view.note(f"A turn was cut off: “{one_line(found.said, 60)}” (…{session_id[-8:]})", "yellow")
        if found.open_calls:
            names = ", ".join(found.open_calls)
            chat.view.note(
                f"  {names} left no result and may have taken effect; nothing is run again unasked."
            )
        chosen = await chat.choose("[c]ontinue, [r]etry, [d]rop or [l]eave it", CUT_OFF)
        if chosen == "leave":
            return
        if chosen == "drop":
            await chat.host.drop(session_id)
            chat.view.note("Dropped; what it had done stays on record.")
            return
        await chat.attach(session_id)
        SlashCommands(chat).show_end(await chat.host.messages(session_id))
        chat.start(chat.host.resume(session_id) if chosen == "continue" else chat.host.retry(session_id))

    async def _waiting(self, session_id: str) -> None:
        chat = self._chat
        # In the conversation that is shown, and in one that another process runs, they are no leftovers.
        if session_id == chat.session_id or alive(await chat.host.holder(session_id)):
            return
        messages = await chat.host.waiting(session_id)
        if not messages:
            return
        chat.view.note(f"{_count(len(messages))} waited from before (…{session_id[-8:]}):", "yellow")
        for message in messages[:5]:
            chat.view.note(f"  “{one_line(text_of(message.message), 70)}”", "yellow")
        chosen = await chat.choose("[r]un, [w]ithdraw or [l]eave", WAITED)
        if chosen == "run":
            await chat.attach(session_id)
            await chat.host.run_waiting(session_id)
        elif chosen == "withdraw":
            for message in messages:
                await chat.host.withdraw(message.id)
            chat.view.note("Withdrawn; they stay on record.")


def alive(holder: str | None) -> bool:
    """Whether the process that holds a conversation still lives; on another host it is believed to."""
    if holder is None:
        return False
    machine, _, rest = holder.partition(":")
    pid = rest.partition(":")[0]
    if machine != socket.gethostname() or not pid.isdecimal():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _count(number: int) -> str:
    return "1 message" if number == 1 else f"{number} messages"
