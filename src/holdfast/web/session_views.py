"""Builds the views of sessions from the host's answers."""

from collections.abc import Sequence

from holdfast.core.contract import Message
from holdfast.core.messages import text_of
from holdfast.core.short_title import short_title
from holdfast.host import Accepted, Beginning, ConversationStatus, SessionHost
from holdfast.sessions.chat_places import ChatPlace
from holdfast.sessions.contract import Session
from holdfast.sessions.conversation_list import PREVIEW, ListedConversation
from holdfast.web.views import (
    AskView,
    ChatPlaceView,
    FailedView,
    LineageView,
    SessionDetail,
    SessionView,
    ToolProfileView,
    UnfinishedView,
    WaitingView,
    milliseconds,
)


async def views_of(host: SessionHost, listed: Sequence[ListedConversation]) -> list[SessionView]:
    """The conversations of a list with their current states."""
    roots = [each.root_id for each in listed]
    statuses = await host.overview.statuses(roots)
    places = await host.chats.places(roots)
    return [
        _view(each, now, _chats(host, places.get(each.root_id, ())))
        for each, now in zip(listed, statuses, strict=True)
    ]


def _chats(host: SessionHost, places: Sequence[ChatPlace]) -> list[ChatPlaceView]:
    return [ChatPlaceView.at(each, host.chats.platforms.get(each.account, "")) for each in places]


async def view_of(host: SessionHost, session_id: str) -> SessionView:
    [view] = await views_of(host, [await host.records.session(session_id)])
    return view


def begun_view(accepted: Accepted, how: Beginning, message: Message, source: str) -> SessionView:
    """A conversation that has just begun with a message; built without a read of the store."""
    return SessionView(
        id=accepted.session_id,
        root_id=accepted.session_id,
        title=how.title,
        label=how.title or short_title(text_of(message)[:PREVIEW]),
        opening=" ".join(text_of(message).split())[:PREVIEW],
        source=source,
        scope=how.scope,
        pinned=False,
        archived=False,
        started_at=milliseconds(accepted.at),
        last_active=milliseconds(accepted.at),
        messages=0,
        state="idle",
        waiting=1,
        asking=0,
        parent_id=None,
        model=how.choice.model,
        workspace=how.choice.workspace,
        folder=how.choice.folder,
    )


def _view(listed: ListedConversation, now: ConversationStatus, chats: list[ChatPlaceView]) -> SessionView:
    session = listed.session
    return SessionView(
        id=session.id,
        root_id=listed.root_id,
        title=session.title,
        label=listed.label,
        opening=listed.opening,
        source=session.source,
        scope=session.scope,
        pinned=listed.pinned,
        archived=listed.archived,
        started_at=milliseconds(session.started),
        last_active=milliseconds(listed.last_active),
        messages=listed.messages,
        state=now.state,
        waiting=now.waiting,
        asking=now.asking,
        trouble=now.trouble,
        parent_id=session.parent,
        branch_of=listed.branch_of,
        chats=chats,
        model=listed.choice.model,
        workspace=listed.choice.workspace,
        folder=listed.choice.folder,
    )


async def detail_of(host: SessionHost, session_id: str) -> SessionDetail:
    """A conversation with all that a page needs to show it."""
    view = await view_of(host, session_id)
    status = await host.overview.session_status(session_id)
    context = await host.overview.context_size(session_id)
    unfinished = await host.commands.unfinished(session_id)
    failed = await host.records.failed(session_id)
    profile = await host.overview.tool_profile(session_id)
    lineage = await host.records.lineage(session_id)
    first = lineage[0]
    return SessionDetail(
        **view.model_dump(),
        tool_profile=ToolProfileView.of(profile),
        branch_from=first.parent if first.relation == "branch" else None,
        turn_id=status.turn_id,
        context_tokens=context.tokens,
        context_window=context.window,
        lineage=[await _lineage(host, each) for each in lineage],
        unfinished=UnfinishedView.of(unfinished) if unfinished else None,
        failed=FailedView.of(failed) if failed else None,
        waiting_messages=[WaitingView.of(each) for each in await host.records.waiting(session_id)],
        asks=[AskView.of(each) for each in await host.overview.asks(session_id)],
        changed_turns=await host.files.changed_turns(session_id),
        usage=await host.usage.conversation(session_id),
    )


async def _lineage(host: SessionHost, session: Session) -> LineageView:
    last = await host.records.messages(session.id, limit=1, exact=True)
    return LineageView(
        id=session.id,
        started_at=milliseconds(session.started),
        ended_at=None if session.ended is None else milliseconds(session.ended),
        end_reason=session.end_reason,
        messages=last[-1].seq + 1 if last else 0,
    )
