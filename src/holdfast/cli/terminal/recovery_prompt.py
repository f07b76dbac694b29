"""Asks about cut-off turns and waiting messages that an earlier run left (D10, I1)."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.cli.terminal.chat import Chat
from holdfast.cli.terminal.last_turn import show_last_turn
from holdfast.core.clean_text import one_line
from holdfast.core.errors import HoldfastError
from holdfast.core.messages import text_of
from holdfast.host import SessionHost
from holdfast.sessions.contract import InboxMessage

LOOK_SECONDS = 1.0
SHOWN = 5
CUT_OFF = {"c": "continue", "r": "retry", "d": "drop", "l": "leave"}
WAITED = {"r": "run", "w": "withdraw", "l": "leave"}


class RecoveryPrompt:
    """Asks about each thing once."""

    def __init__(self, chat: Chat, wanted: str | None = None) -> None:
        self._chat = chat
        self._wanted = wanted
        self._asked: set[str] = set()

    async def watch(self) -> None:
        """Check repeatedly: the lease of a process that died on another machine lasts some seconds more."""
        while True:
            try:
                status = await self._chat.host.overview.status()
                for session_id in status.unfinished:
                    await self._unfinished(session_id)
                for session_id in status.waiting:
                    await self._waiting(session_id)
            except HoldfastError as refusal:
                self._chat.view.note(f"✗ {refusal}", "failure")
            await asyncio.sleep(LOOK_SECONDS)

    async def _unfinished(self, session_id: str) -> None:
        chat = self._chat
        if session_id in self._asked:
            return
        self._asked.add(session_id)
        found = await chat.host.commands.unfinished(session_id)
        if found is None:
            return
        chat.view.note(f"A turn was cut off: “{one_line(found.said, 60)}” (…{session_id[-8:]})", "warning")
        if found.open_calls:
            names = ", ".join(found.open_calls)
            chat.view.note(
                f"  {names} left no result and may have taken effect; nothing is run again unasked."
            )
        if waiting := await chat.host.records.waiting(session_id):
            self._show(session_id, waiting)
        chosen = await chat.choose("[c]ontinue, [r]etry, [d]rop or [l]eave it", CUT_OFF)
        if chosen == "leave":
            return
        # Messages that wait behind the turn run after it, so the conversation is shown from here on.
        if session_id != chat.session_id:
            await show_last_turn(chat, session_id)
        works: dict[str, Callable[[str], Coroutine[Any, Any, Any]]] = {
            "continue": chat.host.commands.resume,
            "retry": chat.host.commands.retry,
            "drop": chat.host.commands.drop,
        }
        done = asyncio.ensure_future(works[chosen](session_id))
        await asyncio.sleep(0)
        await chat.attach(session_id)
        chat.start(self._finish(done, chosen, session_id))

    async def _finish(self, done: "asyncio.Future[Any]", chosen: str, session_id: str) -> None:
        await done
        if chosen == "drop":
            self._chat.view.note("Dropped; what it had done is kept.")
        await self._chat.host.commands.run_waiting(session_id)

    async def _waiting(self, session_id: str) -> None:
        chat = self._chat
        # Those of the conversation on the screen are not from an earlier run.
        if session_id in (chat.session_id, *self._asked):
            return
        if await chat.host.records.holder(session_id) is not None:
            return
        messages = await chat.host.records.waiting(session_id)
        if not messages:
            return
        self._asked.add(session_id)
        self._show(session_id, messages)
        chosen = await chat.choose("[r]un, [w]ithdraw or [l]eave", WAITED)
        if chosen == "run":
            await chat.attach(session_id)
            await chat.host.commands.run_waiting(session_id)
        elif chosen == "withdraw":
            for message in messages:
                await chat.host.records.withdraw(message.id)
            chat.view.note("Withdrawn; they are kept as withdrawn.")
            if session_id == self._wanted:
                await chat.attach(session_id)

    def _show(self, session_id: str, messages: list[InboxMessage]) -> None:
        self._chat.view.note(f"{_count(len(messages))} waited from before (…{session_id[-8:]}):", "warning")
        for message in messages[:SHOWN]:
            self._chat.view.note(f"  “{one_line(text_of(message.message), 70)}”", "warning")


async def needs_decision(host: SessionHost, session_id: str) -> bool:
    """Whether something in this conversation must be asked about before it goes on."""
    if await host.records.holder(session_id) is not None:
        return False
    return (
        bool(await host.records.waiting(session_id)) or await host.commands.unfinished(session_id) is not None
    )


def _count(number: int) -> str:
    return "1 message" if number == 1 else f"{number} messages"
