"""`/api/search`: the messages that contain every word of a query."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from holdfast.host import API_SOURCE
from holdfast.sessions import Filters, SearchHit
from holdfast.sessions.conversation_list import ListedConversation
from holdfast.web.contract import HostDep
from holdfast.web.principal import PrincipalDep
from holdfast.web.problems import error_responses
from holdfast.web.views import milliseconds

router = APIRouter(prefix="/api", tags=["search"])

BEGIN, END = "\u0001", "\u0002"


class HitView(BaseModel):
    """A message that matches."""

    session_id: str
    root_id: str
    title: str | None
    opening: str = Field(description="the beginning of the conversation's first message")
    archived: bool
    last_active: int = Field(description="when the conversation was last active")
    seq: int
    turn_id: str | None
    at: int
    role: str
    snippet: str = Field(description="plain text; each match is between U+0001 and U+0002")


class HitsPage(BaseModel):
    items: list[HitView]


@router.get("/search", responses=error_responses(404, 422))
async def search(
    host: HostDep,
    principal: PrincipalDep,
    q: Annotated[str, Query(min_length=1, max_length=1000)],
    limit: Annotated[int, Query(ge=1, le=200)] = 20,
    session: Annotated[str | None, Query(description="only in this conversation")] = None,
    api: Annotated[bool, Query(description="true: only in those begun by /v1 without a name")] = False,
) -> HitsPage:
    """The messages that contain every word of the query, best first; those of the API's clients apart."""
    if session is not None:
        await principal.require_own(host, session)
        filters = Filters(session_id=session, scope=principal.sees)
    elif api:
        filters = Filters(sources=(API_SOURCE,), scope=principal.sees)
    else:
        filters = Filters(not_source=API_SOURCE, scope=principal.sees)
    found = await host.records.search(q, filters=filters, limit=limit)
    listed = {each: await host.records.session(each) for each in {hit.session_id for hit in found}}
    return HitsPage(items=[_view(hit, listed[hit.session_id]) for hit in found])


def _view(hit: SearchHit, of: ListedConversation) -> HitView:
    return HitView(
        session_id=hit.session_id,
        root_id=of.root_id,
        title=of.session.title,
        opening=of.opening,
        archived=of.archived,
        last_active=milliseconds(of.last_active),
        seq=hit.seq,
        turn_id=hit.turn_id,
        at=milliseconds(hit.created),
        role=hit.role,
        snippet="".join(
            f"{BEGIN}{_plain(part.text)}{END}" if part.match else _plain(part.text) for part in hit.snippet
        ),
    )


def _plain(text: str) -> str:
    """The text without characters that would look like marks."""
    return text.replace(BEGIN, " ").replace(END, " ")
