"""Puts together what a view needs from the host's answers."""

from holdfast.host import Host, HostStatus
from holdfast.sessions.listing import Listed
from holdfast.web.views import (
    SessionDetail,
    SessionView,
    State,
    UnfinishedView,
    WaitingView,
    milliseconds,
)


def session_view(listed: Listed, status: HostStatus) -> SessionView:
    session = listed.session
    state: State = "idle"
    if session.id in status.running:
        state = "running"
    elif session.id in status.unfinished:
        state = "unfinished"
    return SessionView(
        id=session.id,
        root_id=session.id,
        title=session.title,
        opening=listed.opening,
        source=session.source,
        pinned=False,
        archived=False,
        started_at=milliseconds(session.started),
        last_spoken=milliseconds(listed.last_spoken),
        messages=listed.messages,
        state=state,
        waiting=status.waiting.count(session.id),
        asking=0,
        parent_id=session.parent,
    )


async def detail_of(host: Host, session_id: str) -> SessionDetail:
    status = await host.session_status(session_id)
    listed = [each for each in await host.sessions(limit=10_000) if each.session.id == status.session_id]
    view = session_view(listed[0], await host.status())
    unfinished = await host.unfinished(session_id)
    return SessionDetail(
        **view.model_dump(exclude={"state", "waiting"}),
        state=status.state,
        waiting=status.waiting,
        turn_id=status.turn_id,
        context_tokens=status.context_tokens,
        context_window=host.model.context_window if host.model else 0,
        lineage=[],
        unfinished=UnfinishedView.of(unfinished) if unfinished else None,
        waiting_messages=[WaitingView.of(each) for each in await host.waiting(session_id)],
        asks=[],
    )
