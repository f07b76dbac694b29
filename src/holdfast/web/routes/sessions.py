"""`/api/sessions`: list, begin, read, change and delete conversations, and move them."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from holdfast.core.ids import new_id
from holdfast.host import Beginning
from holdfast.web.accepting import prefers
from holdfast.web.bodies import MaybePlace, NewSession, Place, SessionChanges
from holdfast.web.contract import TheHost, TheWeb
from holdfast.web.problems import ProblemRaised, said_of
from holdfast.web.reading import begun_view, detail_of, view_of, views_of
from holdfast.web.routes.events import stream_of
from holdfast.web.streaming import EVENTS
from holdfast.web.views import SessionDetail, SessionPage, SessionView

router = APIRouter(prefix="/api/sessions", tags=["sessions"])

JSON = "application/json"
LINES = "application/x-ndjson"
ANY = {"schema": {"type": "string"}}


@router.get("", responses=said_of(422))
async def list_sessions(
    host: TheHost,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    offset: Annotated[int, Query(ge=0, le=2**53)] = 0,
    archived: Annotated[bool | None, Query(description="true: those out of sight")] = False,
    pinned: bool | None = None,
) -> SessionPage:
    """The conversations, the one last spoken in first."""
    listed = await host.sessions(archived=archived, pinned=pinned, limit=limit + 1, offset=offset)
    return SessionPage(
        items=await views_of(host, listed[:limit]),
        next_offset=offset + limit if len(listed) > limit else None,
    )


@router.post(
    "",
    status_code=201,
    response_model=SessionView,
    responses={**said_of(404, 422, 503), 201: {"content": {EVENTS: ANY}}},
)
async def begin_session(web: TheWeb, request: Request, body: NewSession) -> Response | SessionView:
    """Begin a conversation, empty or with its first message: then that is not lost once this has answered.

    The memory of the one left behind is committed, in the background. A message's `key` makes the call
    idempotent: the second one with it answers with the conversation that the first one began. Who sends a
    message and would rather have `text/event-stream` gets the conversation and then its events, from the
    first one on; for a key that was used before, from a snapshot on.
    """
    host = web.host
    if body.message is None:
        return await view_of(host, await host.new_session(body.prev_session_id, title=body.title))
    streamed = prefers(request.headers.getlist("accept"), EVENTS, to=JSON)
    if streamed:
        web.streams.refuse_when_full()
    fresh, message = new_id(), body.message.as_message()
    how = Beginning(title=body.title, prev_session_id=body.prev_session_id, key=body.message.key)
    accepted, events = await host.begin(fresh, message, how)
    if accepted.session_id == fresh:
        view = begun_view(accepted, body.title, message, host.source)
    else:
        view = await view_of(host, accepted.session_id)
        if streamed:
            events = await host.event_batches(accepted.session_id)
    content = view.model_dump_json()
    # It is stored: when others took the last stream meanwhile, the answer is the conversation alone.
    if not streamed or web.streams.full:
        return Response(content, 201, media_type=JSON)
    answer = stream_of(web, events, f"event: SessionView\ndata: {content}\n\n".encode())
    answer.status_code = 201
    return answer


@router.post(
    "/import",
    status_code=201,
    responses=said_of(409, 413, 422),
    openapi_extra={"requestBody": {"required": True, "content": {LINES: ANY}}},
)
async def import_session(host: TheHost, request: Request) -> SessionView:
    """Store an exported conversation, all or nothing."""
    content = await request.body()
    try:
        lines = content.decode("utf-8").split("\n")
    except UnicodeDecodeError as cause:
        raise ProblemRaised(
            422,
            "NotUtf8",
            f"an export is lines of JSON in UTF-8, and byte {cause.start} is none. Nothing was stored.",
            "Send a file that Holdfast exported, as it was exported.",
        ) from None
    return await view_of(host, await host.import_session([line for line in lines if line.strip()]))


@router.get("/{session_id}", responses=said_of(404, 422))
async def read_session(host: TheHost, session_id: str) -> SessionDetail:
    """How a conversation stands. Any id of it may be named; the answer names its live end."""
    return await detail_of(host, session_id)


@router.patch("/{session_id}", responses=said_of(404, 422))
async def change_session(host: TheHost, session_id: str, body: SessionChanges) -> SessionView:
    """Rename, pin or archive a conversation; an empty title takes it away."""
    if "title" in body.model_fields_set:
        await host.rename(session_id, body.title)
    if body.pinned is not None:
        await host.pin(session_id, body.pinned)
    if body.archived is not None:
        await host.archive(session_id, body.archived)
    return await view_of(host, session_id)


@router.delete("/{session_id}", status_code=204, responses=said_of(404, 409, 422))
async def delete_session(
    host: TheHost,
    session_id: str,
    force: Annotated[bool, Query(description="also what waits in it and what memory is owed for it")] = False,
) -> None:
    """Delete a whole conversation for good; branches that left it stay."""
    await host.delete(session_id, force=force)


@router.post("/{session_id}/clear", status_code=201, responses=said_of(404, 409, 422))
async def clear(host: TheHost, session_id: str) -> SessionView:
    """End a conversation and begin an empty one. What was said stays on record."""
    return await view_of(host, await host.clear(session_id))


@router.post("/{session_id}/truncate", status_code=201, responses=said_of(404, 409, 422))
async def truncate(host: TheHost, session_id: str, body: Place) -> SessionView:
    """Go on as if nothing from a message on had been said; the original stays on record."""
    return await view_of(host, await host.truncate(session_id, before=body.before))


@router.post("/{session_id}/branch", status_code=201, responses=said_of(404, 409, 422))
async def branch(host: TheHost, session_id: str, body: MaybePlace | None = None) -> SessionView:
    """A new conversation that begins with what was said before a message, or with all of it."""
    place = body or MaybePlace()
    return await view_of(host, await host.branch(session_id, before=place.before, exact=place.exact))


@router.get(
    "/{session_id}/export",
    response_class=Response,
    responses={**said_of(404, 422), 200: {"description": "the conversation", "content": {LINES: ANY}}},
)
async def export(host: TheHost, session_id: str) -> Response:
    """The conversation with its whole lineage, as lines of JSON."""
    lines = await host.export(session_id)
    name = "".join(each for each in session_id if each.isascii() and (each.isalnum() or each in "-_"))[:80]
    headers = {"Content-Disposition": f'attachment; filename="holdfast-{name or "session"}.ndjson"'}
    return Response("".join(f"{line}\n" for line in lines), headers=headers, media_type=LINES)
