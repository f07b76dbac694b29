"""`/api/sessions`: list, begin, read, change and delete conversations, and move them."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from holdfast.core.ids import new_id
from holdfast.host import Beginning
from holdfast.sessions.contract import NOTHING_CHOSEN, ConversationChoice
from holdfast.web.accept_header import prefers
from holdfast.web.bodies import BranchBody, KeyBody, NewSessionBody, SessionChangesBody, TruncateBody
from holdfast.web.contract import HostDep, WebDep, WebParts
from holdfast.web.principal import Principal, PrincipalDep
from holdfast.web.problems import ProblemRaised, error_responses
from holdfast.web.repeated_messages import refuse_another_message
from holdfast.web.routes.events import stream_of
from holdfast.web.session_views import begun_view, detail_of, view_of, views_of
from holdfast.web.streams import EVENTS
from holdfast.web.views import SessionDetail, SessionPage, SessionView

router = APIRouter(prefix="/api/sessions", tags=["sessions"])

JSON = "application/json"
LINES = "application/x-ndjson"
ANY = {"schema": {"type": "string"}}


@router.get("", responses=error_responses(422))
async def list_sessions(  # noqa: PLR0913, PLR0917 - the parameters of a query
    host: HostDep,
    principal: PrincipalDep,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    offset: Annotated[int, Query(ge=0, le=2**53)] = 0,
    archived: Annotated[bool | None, Query(description="true: only archived ones")] = False,
    pinned: bool | None = None,
    api: Annotated[bool, Query(description="true: only those begun by /v1 without a name")] = False,
    folder: Annotated[str | None, Query(max_length=100, description="only those in this folder")] = None,
) -> SessionPage:
    """The conversations, the most recent first; those of the API's clients are listed apart."""
    if folder:
        listed = await host.records.in_folder(
            folder, scope=principal.sees, archived=archived, limit=limit + 1, offset=offset
        )
    else:
        listed = await host.records.sessions(
            api=api, scope=principal.sees, archived=archived, pinned=pinned, limit=limit + 1, offset=offset
        )
    return SessionPage(
        items=await views_of(host, listed[:limit]),
        next_offset=offset + limit if len(listed) > limit else None,
    )


@router.post(
    "",
    status_code=201,
    response_model=SessionView,
    responses={**error_responses(404, 422, 502, 503), 201: {"content": {EVENTS: ANY}}},
)
async def begin_session(
    web: WebDep, request: Request, principal: PrincipalDep, body: NewSessionBody
) -> Response | SessionView:
    """Begin a conversation, empty or with its first message, which is not lost once this has answered.

    The memory of `prev_session_id` is committed in the background. A message's `key` makes the call
    idempotent: a second call with it answers with the conversation of the first. A client that sends a
    message and prefers `text/event-stream` gets the conversation and then its events: all of them, or after
    a snapshot when the key was used before.
    """
    host = web.host
    if body.prev_session_id:
        await principal.require_own(host, body.prev_session_id)
    await _require_allowed(web, principal, body.choice)
    choice = await host.choices.checked(body.choice)
    if body.message is None:
        made = await host.new_session(
            body.prev_session_id, title=body.title, key=principal.key(body.key), scope=principal.scope
        )
        if choice != NOTHING_CHOSEN:
            chosen = await host.choices.of_folder(choice)
            await host.choices.choose(
                made, model=chosen.model, workspace=chosen.workspace, folder=chosen.folder
            )
        return await view_of(host, made)
    streamed = prefers(request.headers.getlist("accept"), EVENTS, to=JSON)
    if streamed:
        web.streams.refuse_when_full()
    fresh, message = new_id(), body.message.as_message()
    how = Beginning(
        title=body.title,
        prev_session_id=body.prev_session_id,
        key=principal.key(body.message.key or body.key),
        scope=principal.scope,
        choice=choice,
    )
    accepted, events = await host.begin(fresh, message, how)
    await refuse_another_message(host, accepted, message)
    if accepted.session_id == fresh:
        view = begun_view(accepted, how, message, host.source)
    else:
        view = await view_of(host, accepted.session_id)
        if streamed:
            events = await host.event_batches(accepted.session_id)
    content = view.model_dump_json()
    # The message is stored; if no stream is free by now, the answer is the conversation alone.
    if not streamed or web.streams.full:
        return Response(content, 201, media_type=JSON)
    answer = stream_of(web, events, f"event: SessionView\ndata: {content}\n\n".encode())
    answer.status_code = 201
    return answer


@router.post(
    "/import",
    status_code=201,
    responses=error_responses(409, 413, 422),
    openapi_extra={"requestBody": {"required": True, "content": {LINES: ANY}}},
)
async def import_session(host: HostDep, request: Request) -> SessionView:
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
    return await view_of(host, await host.records.import_session([line for line in lines if line.strip()]))


@router.get("/{session_id}", responses=error_responses(404, 422))
async def read_session(host: HostDep, session_id: str) -> SessionDetail:
    """The state of a conversation, by any of its ids; the answer has the current one."""
    return await detail_of(host, session_id)


@router.patch("/{session_id}", responses=error_responses(404, 422, 502))
async def change_session(
    web: WebDep, principal: PrincipalDep, session_id: str, body: SessionChangesBody
) -> SessionView:
    """Rename, pin or archive a conversation, or change its model, workspace, folder or tool profile.

    An empty text takes it away. A model and a workspace count from the next turn on.
    """
    host = web.host
    wanted = ConversationChoice(body.model or "", body.workspace or "", body.folder or "")
    await _require_allowed(web, principal, wanted)
    if not (body.model is None and body.workspace is None and body.folder is None):
        # First, because it is checked: a model that can't be opened changes nothing.
        await host.choices.choose(session_id, model=body.model, workspace=body.workspace, folder=body.folder)
    if "title" in body.model_fields_set:
        await host.records.rename(session_id, body.title)
    if body.pinned is not None:
        await host.records.pin(session_id, body.pinned)
    if body.archived is not None:
        await host.records.archive(session_id, body.archived)
    if body.tool_profile is not None:
        await host.set_tool_profile(session_id, body.tool_profile)
    return await view_of(host, session_id)


@router.delete("/{session_id}", status_code=204, responses=error_responses(404, 409, 422))
async def delete_session(
    host: HostDep,
    session_id: str,
    force: Annotated[
        bool, Query(description="also delete waiting messages and deliveries to memory")
    ] = False,
    forget_memory: Annotated[
        bool, Query(description="also have every memory provider forget it; see `/api/memory/forgotten`")
    ] = False,
) -> None:
    """Delete a whole conversation for good; branches that left it stay."""
    await host.delete(session_id, force=force, forget_memory=forget_memory)


@router.post("/{session_id}/clear", status_code=201, responses=error_responses(404, 409, 422))
async def clear(host: HostDep, session_id: str, body: KeyBody | None = None) -> SessionView:
    """End a conversation and begin an empty one. Its messages are kept."""
    return await view_of(host, await host.commands.clear(session_id, key=body.key if body else None))


@router.post("/{session_id}/truncate", status_code=201, responses=error_responses(404, 409, 422))
async def truncate(host: HostDep, session_id: str, body: TruncateBody) -> SessionView:
    """Go on in a copy that ends before a message; the original is kept."""
    return await view_of(host, await host.commands.truncate(session_id, before=body.before, key=body.key))


@router.post("/{session_id}/branch", status_code=201, responses=error_responses(404, 409, 422))
async def branch(host: HostDep, session_id: str, body: BranchBody | None = None) -> SessionView:
    """A new conversation with the messages before a given one, or with all."""
    place = body or BranchBody()
    made = await host.records.branch(session_id, before=place.before, exact=place.exact, key=place.key)
    return await view_of(host, made)


@router.get(
    "/{session_id}/export",
    response_class=Response,
    responses={
        **error_responses(404, 422),
        200: {"description": "the conversation", "content": {LINES: ANY}},
    },
)
async def export(host: HostDep, session_id: str) -> Response:
    """The conversation with its whole lineage, as lines of JSON."""
    lines = await host.records.export(session_id)
    name = "".join(each for each in session_id if each.isascii() and (each.isalnum() or each in "-_"))[:80]
    headers = {"Content-Disposition": f'attachment; filename="holdfast-{name or "session"}.ndjson"'}
    return Response("".join(f"{line}\n" for line in lines), headers=headers, media_type=LINES)


async def _require_allowed(web: WebParts, principal: Principal, choice: ConversationChoice) -> None:
    """An account works in a workspace of its own, without folders, and chooses among the models on offer."""
    if principal.user is None:
        return
    if choice.model:
        await web.host.choices.require_offered(choice.model, web.settings.user_models)
    if choice.workspace or choice.folder:
        raise ProblemRaised(
            403,
            "NotForAccounts",
            "an account works in its own workspace and has no folders. Nothing was changed.",
            "Leave out `workspace` and `folder`.",
        )
