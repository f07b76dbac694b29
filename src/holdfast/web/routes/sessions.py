"""`/api/sessions`: list, begin, read and change conversations."""

from typing import Annotated

from fastapi import APIRouter, Query

from holdfast.web.bodies import NewSession
from holdfast.web.contract import TheHost
from holdfast.web.problems import said_of
from holdfast.web.reading import detail_of, session_view
from holdfast.web.views import SessionDetail, SessionPage, SessionView

router = APIRouter(prefix="/api/sessions", tags=["sessions"])


@router.get("", responses=said_of())
async def list_sessions(
    host: TheHost,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    offset: Annotated[int, Query(ge=0, le=2**53)] = 0,
) -> SessionPage:
    """The conversations, the one last spoken in first."""
    listed = await host.sessions(limit=limit + 1, offset=offset)
    status = await host.status()
    more = len(listed) > limit
    return SessionPage(
        items=[session_view(each, status) for each in listed[:limit]],
        next_offset=offset + limit if more else None,
    )


@router.post("", status_code=201, responses=said_of(404, 422))
async def begin_session(host: TheHost, body: NewSession) -> SessionView:
    """Begin a conversation. The memory of the one left behind is committed, in the background."""
    fresh = await host.new_session(body.prev_session_id, title=body.title)
    return await detail_of(host, fresh)


@router.get("/{session_id}", responses=said_of(404))
async def read_session(host: TheHost, session_id: str) -> SessionDetail:
    """How a conversation stands."""
    return await detail_of(host, session_id)
