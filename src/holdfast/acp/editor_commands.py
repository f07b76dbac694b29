"""The slash commands of an editor: each is one call on the host, and a few lines of answer."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any

from acp import schema, update_agent_message_text

from holdfast.acp.session_feed import SessionFeed
from holdfast.core.errors import InvalidInput
from holdfast.core.events import TURN_ENDS, TurnEnd
from holdfast.core.messages import storable

ABOUT: Mapping[str, tuple[str, str]] = {
    "status": ("Show the workspace, the model, the mode and memory", ""),
    "compact": ("Summarise the conversation to make room", "what to keep above all"),
    "undo": ("Take back the last message and its answer; files stay as they are", ""),
    "continue": ("Go on with a turn that was cut off, and with messages that wait", ""),
    "retry": ("Ask again what was cut off", ""),
    "drop": ("End a turn that was cut off; what it did is kept", ""),
}


def available_commands() -> schema.AvailableCommandsUpdate:
    """The commands, for the editor's menu."""
    return schema.AvailableCommandsUpdate(
        session_update="available_commands_update",
        available_commands=[
            schema.AvailableCommand(
                name=name,
                description=about,
                input=schema.AvailableCommandInput(schema.UnstructuredCommandInput(hint=hint))
                if hint
                else None,
            )
            for name, (about, hint) in ABOUT.items()
        ],
    )


def command_in(text: str) -> tuple[str, str] | None:
    """The command and what follows it; None for any other message, such as a path."""
    word, _, argument = text.strip().partition(" ")
    return (word[1:], argument.strip()) if word.startswith("/") and word[1:] in ABOUT else None


class EditorCommands:
    """The commands in one session."""

    def __init__(self, feed: SessionFeed) -> None:
        self._feed = feed
        self._host = feed.project.host
        self._runs: dict[str, Callable[[str], Awaitable[TurnEnd | None]]] = {
            name: getattr(self, f"_{name}") for name in ABOUT
        }

    async def run(self, name: str, argument: str) -> TurnEnd | None:
        """Run one; returns the end of the turn that it has run, if it has."""
        return await self._runs[name](argument)

    async def _say(self, *lines: str) -> None:
        await self._feed.show(update_agent_message_text(storable("\n".join(f"- {each}" for each in lines))))

    async def _status(self, _: str) -> None:
        status, feed, model = await self._host.overview.status(), self._feed, self._host.model
        now = await self._host.overview.session_status(feed.live_id)
        trouble = f"; it can't go on: {now.trouble}" if now.trouble else ""
        owed = ", ".join(f"{each.provider}: {each.owed} turns owed" for each in status.memory)
        await self._say(
            f"conversation {now.session_id}: {now.state}, {now.waiting} waiting{trouble}",
            f"workspace: {status.workspace}",
            f"mode: {feed.project.mode}",
            f"sandbox: {status.sandbox}",
            f"model: {model.name if model else 'none'}",
            f"memory: {owed or 'none'}",
            f"store: {status.store}",
            *(f"note: {problem}" for problem in self._host.overview.problems),
        )

    async def _compact(self, focus: str) -> None:
        await self._host.commands.compact(self._feed.live_id, focus)
        size = await self._host.overview.context_size(self._feed.live_id)
        await self._say(f"The conversation takes {size.tokens:,} of {size.window:,} tokens now.")

    async def _undo(self, _: str) -> None:
        undone = await self._host.undo(self._feed.live_id)
        await self._feed.go_on_in(undone.session_id)
        await self._say(
            f"Taken back: {undone.text[:200]}",
            "The conversation goes on without it, in a copy. The editor still shows what was taken back; "
            "when it is opened again, the copy is the one to choose from the list.",
        )

    async def _continue(self, _: str) -> TurnEnd | None:
        live = self._feed.live_id
        if await self._host.commands.unfinished(live) is not None:
            return await self._next_turn(partial(self._host.commands.resume, live))
        if await self._host.records.waiting(live):
            return await self._next_turn(partial(self._host.commands.run_waiting, live))
        raise InvalidInput("nothing was cut off and nothing waits in this conversation")

    async def _retry(self, _: str) -> TurnEnd | None:
        await self._require_unfinished()
        return await self._next_turn(partial(self._host.commands.retry, self._feed.live_id))

    async def _drop(self, _: str) -> None:
        await self._require_unfinished()
        await self._host.commands.drop(self._feed.live_id)
        await self._say("The turn is ended; what it had done is kept.")

    async def _require_unfinished(self) -> None:
        if await self._host.commands.unfinished(self._feed.live_id) is None:
            raise InvalidInput("no turn was cut off in this conversation")

    async def _next_turn(self, begin: Callable[[], Coroutine[Any, Any, Any]]) -> TurnEnd | None:
        """Do this and wait for the end of the turn that it begins; the feed shows the turn."""
        batches = await self._host.event_batches(self._feed.live_id, from_now=True)
        ending = asyncio.create_task(_first_end(batches))
        try:
            await begin()
            end = await ending
        finally:
            ending.cancel()
        if end is not None:
            await self._feed.until_shown(end)
        return end


async def _first_end(batches: Any) -> TurnEnd | None:  # noqa: ANN401 - an async generator of the host
    async with aclosing(batches):
        async for batch in batches:
            for each in batch:
                if isinstance(each.event, TURN_ENDS):
                    return each.event
    return None
