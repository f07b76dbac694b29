"""`EditorAgent`: answers an editor's requests, each by one call on a host. Read `contract.py` first."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

from acp import PROTOCOL_VERSION, RequestError, schema
from acp.helpers import ContentBlock
from acp.interfaces import Client

from holdfast import __version__
from holdfast.acp.contract import INTERNAL, in_protocol_words, request_error
from holdfast.acp.editor_commands import EditorCommands, available_commands, command_in
from holdfast.acp.project_hosts import EditorServer, ProjectHosts
from holdfast.acp.prompt_content import prompt_message
from holdfast.acp.session_feed import SessionFeed
from holdfast.acp.session_options import MODEL, checked_mode, mode_state, model_options
from holdfast.core.contract import Message
from holdfast.core.errors import InvalidInput, SessionNotFound
from holdfast.core.events import TurnEnd, TurnFailed, TurnInterrupted
from holdfast.core.ids import new_id
from holdfast.core.messages import storable
from holdfast.host import AskOptions, turn_error
from holdfast.models.contract import Usage
from holdfast.sessions.contract import OWNER

logger = logging.getLogger(__name__)

PAGE = 50
NOT_ANSWERED = "Holdfast stopped before the answer came. The message is kept."


class EditorAgent:
    """The agent's side of the protocol. The names of the methods and of their parameters are the SDK's."""

    def __init__(self, hosts: ProjectHosts, folder: str) -> None:
        """`folder` is where the program was started."""
        self._hosts = hosts
        self._folder = folder
        self._client: Client
        self._offers: schema.ClientCapabilities | None = None
        self._feeds: dict[str, SessionFeed] = {}
        self._unsaid: set[str] = set()
        """Sessions without a message: they begin with their first one, as in a terminal."""
        self._stops: dict[str, set[asyncio.Event]] = {}

    def on_connect(self, conn: Client) -> None:
        self._client = conn

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: schema.ClientCapabilities | None = None,
        **_: object,
    ) -> schema.InitializeResponse:
        """Say what this agent can do, and hear what the editor offers."""
        self._offers = client_capabilities
        logger.info("acp.initialize", extra={"version": protocol_version})
        return schema.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=schema.Implementation(name="holdfast", title="Holdfast", version=__version__),
            auth_methods=[],
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(image=True, embedded_context=True),
                mcp_capabilities=schema.McpCapabilities(http=True),
                session_capabilities=schema.SessionCapabilities(list=schema.SessionListCapabilities()),
            ),
        )

    # sessions

    @in_protocol_words
    async def new_session(
        self, cwd: str, mcp_servers: Sequence[EditorServer] | None = None, **_: object
    ) -> schema.NewSessionResponse:
        """Open a session in a folder."""
        project = await self._hosts.open(cwd, mcp_servers or ())
        feed = SessionFeed(self._client, new_id(), project, self._offers)
        project.editors[feed.id] = feed.editor
        self._unsaid.add(feed.id)
        feed.start()
        return schema.NewSessionResponse(session_id=feed.id, **await self._opened(feed))

    @in_protocol_words
    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Sequence[EditorServer] | None = None, **_: object
    ) -> schema.LoadSessionResponse:
        """Show a conversation that is on record, and go on with it."""
        project = await self._hosts.open(cwd, mcp_servers or ())
        if session_id in self._feeds and session_id not in self._unsaid:
            await self._feeds.pop(session_id).close()
        if session_id in self._unsaid:
            feed = self._feeds[session_id]
        else:
            feed = SessionFeed(self._client, session_id, project, self._offers)
            await feed.replay()
        return schema.LoadSessionResponse(**await self._opened(feed))

    async def _opened(self, feed: SessionFeed) -> dict[str, Any]:
        self._feeds[feed.id] = feed
        project = feed.project
        models = await model_options(project.host)
        # Nothing is awaited from here to the answer, so it goes out first: before it, the editor does not
        # know the session.
        asyncio.get_running_loop().call_soon(feed.later, available_commands(), *feed.problems())
        modes = mode_state(project.settings.tools.approval, project.mode)
        return {"modes": modes, "config_options": models or None}

    @in_protocol_words
    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: object
    ) -> schema.ListSessionsResponse:
        """The conversations, whichever surface began them, the one last active first."""
        if cursor is not None and not (cursor.isascii() and cursor.isdecimal()):
            raise InvalidInput(
                f"there is no page {cursor!r} of the list; leave the cursor out for the first one"
            )
        folder, start = cwd or self._folder, int(cursor or 0)
        host = (self._hosts.any() or await self._hosts.open(folder, ())).host
        found = await host.records.sessions(api=False, scope=OWNER, limit=PAGE, offset=start)
        return schema.ListSessionsResponse(
            sessions=[
                schema.SessionInfo(
                    session_id=each.root_id,
                    cwd=folder,
                    title=storable(each.label) or None,
                    updated_at=_iso(each.last_active),
                )
                for each in found
            ],
            next_cursor=str(start + PAGE) if len(found) == PAGE else None,
        )

    # options

    @in_protocol_words
    async def set_session_mode(
        self, session_id: str, mode_id: str, **_: object
    ) -> schema.SetSessionModeResponse:
        """Change what the agents of this folder may do, from their next turn on."""
        project = self._feed(session_id).project
        project.mode = checked_mode(project.settings.tools.approval, mode_id)
        changed = schema.CurrentModeUpdate(session_update="current_mode_update", current_mode_id=mode_id)
        for feed in self._feeds.values():
            if feed.project is project:
                await feed.show(changed)
        return schema.SetSessionModeResponse()

    @in_protocol_words
    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: object
    ) -> schema.SetSessionConfigOptionResponse:
        """Change the model, in this program, from the next turn on."""
        host = self._feed(session_id).project.host
        if config_id != MODEL or not isinstance(value, str):
            raise InvalidInput(f"there is no option {config_id!r} with such a value; there is {MODEL!r}")
        await host.switch_model(value)
        return schema.SetSessionConfigOptionResponse(config_options=await model_options(host))

    # turns

    @in_protocol_words
    async def prompt(self, session_id: str, prompt: list[ContentBlock], **_: object) -> schema.PromptResponse:
        """Answer a message, or run a command."""
        feed = self._feed(session_id)
        message = await prompt_message(prompt)
        command = command_in(message) if isinstance(message, str) else None
        if command is None:
            return await self._answer(feed, message)
        if session_id in self._unsaid:
            raise InvalidInput(f"nothing was said yet, so there is nothing for /{command[0]} to do")
        return await self._run_command(feed, *command)

    async def _run_command(self, feed: SessionFeed, name: str, argument: str) -> schema.PromptResponse:
        stop = self._stop_for(feed)
        running = asyncio.create_task(EditorCommands(feed).run(name, argument), name=f"acp /{name}")
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait([running, stopped], return_when=asyncio.FIRST_COMPLETED)
            if not running.done() and not await feed.project.host.interrupt(feed.live_id):
                return schema.PromptResponse(stop_reason="cancelled")
            return _response(await running)
        finally:
            running.cancel()
            stopped.cancel()
            self._stops[feed.id].discard(stop)

    def _stop_for(self, feed: SessionFeed) -> asyncio.Event:
        """What a cancel sets for one prompt."""
        stop = asyncio.Event()
        self._stops.setdefault(feed.id, set()).add(stop)
        return stop

    async def _answer(self, feed: SessionFeed, message: str | Message) -> schema.PromptResponse:
        stop = self._stop_for(feed)
        try:
            options = AskOptions(when_asked="wait", stop=stop, scope=OWNER, new=feed.id in self._unsaid)
            async with feed.sending:
                handle = await feed.project.host.start_turn(feed.live_id, message, options)
                feed.sent.add(handle.inbox_id)
            self._unsaid.discard(feed.id)
            async with aclosing(handle.batches()) as batches:
                async for _ in batches:
                    pass
            if handle.end is not None:
                await feed.until_shown(handle.end)
                feed.later(await self._info(feed))
                return _response(handle.end, handle.usage)
            if not stop.is_set():
                raise RequestError(INTERNAL, NOT_ANSWERED)
            # It had to wait behind another turn, so there was nothing to interrupt: it is taken back.
            handle.abandon()
            return schema.PromptResponse(stop_reason="cancelled")
        finally:
            self._stops[feed.id].discard(stop)

    async def _info(self, feed: SessionFeed) -> schema.SessionInfoUpdate:
        """The title of a conversation, as the list shows it."""
        listed = await feed.project.host.records.session(feed.live_id)
        return schema.SessionInfoUpdate(
            session_update="session_info_update",
            title=storable(listed.label) or None,
            updated_at=_iso(listed.last_active),
        )

    async def cancel(self, session_id: str, **_: object) -> None:
        """Interrupt what runs in a session; what it did is kept."""
        feed = self._feeds.get(session_id)
        if feed is None:
            return
        if stops := self._stops.get(session_id):
            for stop in stops:
                stop.set()
        elif session_id not in self._unsaid:
            await feed.project.host.interrupt(feed.live_id)

    async def close(self) -> None:
        """Show nothing more."""
        for feed in self._feeds.values():
            await feed.close()

    def _feed(self, session_id: str) -> SessionFeed:
        feed = self._feeds.get(session_id)
        if feed is None:
            raise SessionNotFound(session_id)
        return feed


def _iso(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1e6, UTC).isoformat()


def _response(end: TurnEnd | None, usage: Usage | None = None) -> schema.PromptResponse:
    """The answer to a prompt whose turn has ended; raises for a turn that failed."""
    if isinstance(end, TurnFailed):
        raise request_error(turn_error(end))
    reason: schema.StopReason = "cancelled" if isinstance(end, TurnInterrupted) else "end_turn"
    if usage is None:
        return schema.PromptResponse(stop_reason=reason)
    total = usage.input + usage.output
    return schema.PromptResponse(
        stop_reason=reason,
        usage=schema.Usage(
            total_tokens=total,
            input_tokens=usage.input,
            output_tokens=usage.output,
            cached_read_tokens=usage.cached,
        ),
    )
