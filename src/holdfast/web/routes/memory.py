"""`/api/memory`: the state of each provider, its memories, and the deliveries that were set aside."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, BeforeValidator, Field

from holdfast.host import SessionHost
from holdfast.memory.contract import ProviderStatus
from holdfast.memory.forget_selection import ForgetQuery
from holdfast.web.bodies import Key, StrictBody
from holdfast.web.contract import HostDep
from holdfast.web.principal import Principal, PrincipalDep
from holdfast.web.problems import ProblemRaised, error_responses
from holdfast.web.views import StoreTime, View

router = APIRouter(prefix="/api/memory", tags=["memory"], responses=error_responses(422))

DeliveryId = Annotated[int, Path(ge=0, le=2**53)]


class ProviderView(BaseModel):
    """The state of one provider."""

    name: str
    state: str = Field(description="working, behind, failing or stuck")
    owed: int = Field(description="turns not delivered yet")
    oldest_age: float | None = Field(description="for how long the oldest has been owed, in seconds")
    set_aside: int
    delivered: int = Field(description="turns that this process has delivered")
    failing: bool
    last_error: str | None
    recall_stuck: bool
    only_here: bool = Field(description="in files on this machine, which others on the same store don't see")

    @classmethod
    def of(cls, given: ProviderStatus) -> "ProviderView":
        failing = given.circuit == "open"
        state = (
            "failing" if failing else "stuck" if given.recall_stuck else "behind" if given.owed else "working"
        )
        return cls(
            name=given.provider,
            state=state,
            owed=given.owed,
            oldest_age=given.oldest_owed_seconds,
            set_aside=given.set_aside,
            delivered=given.delivered,
            failing=failing,
            last_error=given.last_error,
            recall_stuck=given.recall_stuck,
            only_here=given.only_here,
        )


class MemoryStatusView(BaseModel):
    providers: list[ProviderView]


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1000)


class MemoryView(View):
    """One memory of a provider."""

    provider: str
    id: str | None = Field(description="the id for `forget`; null: it can't be forgotten by id")
    text: str
    kind: str
    session_id: str
    turn_id: str | None
    speaker: str
    at: Annotated[int | None, BeforeValidator(_milliseconds)] = Field(validation_alias="created")
    shown: int = Field(description="how often it was recalled for a turn")
    used: int = Field(description="how often an answer used it, as far as its words tell")


class MemoryPage(BaseModel):
    items: list[MemoryView]
    failed: dict[str, str] = Field(description="the error of each provider that did not answer, by its name")


class DeliveryView(View):
    """A turn that could not be delivered."""

    id: int
    provider: str
    session_id: str
    turn_id: str
    attempts: int
    last_error: str | None
    at: StoreTime = Field(validation_alias="created")


class SetAsidePage(BaseModel):
    items: list[DeliveryView]
    next_after: int | None


class MemoryName(StrictBody):
    provider: Annotated[str, Field(min_length=1, max_length=200)]
    id: Annotated[str, Field(min_length=1, max_length=1000)]


class SelectionBody(StrictBody):
    """What to forget, in exactly one way; `provider` goes with `id` or with `words`."""

    provider: Annotated[str, Field(max_length=200)] = ""
    id: Annotated[str, Field(max_length=1000)] = Field(default="", description="one memory of `provider`")
    memories: Annotated[tuple[MemoryName, ...], Field(max_length=1000)] = ()
    words: Annotated[str, Field(max_length=1000)] = Field(
        default="", description="every memory that has all of these words"
    )
    after: Annotated[int, Field(ge=0, le=2**53)] | None = Field(
        default=None, description="all since this moment, in milliseconds"
    )
    before: Annotated[int, Field(ge=0, le=2**53)] | None = Field(
        default=None, description="all before this moment"
    )
    session_id: Annotated[str, Field(max_length=200)] = Field(default="", description="all of a conversation")
    person: Annotated[str, Field(max_length=200)] = Field(
        default="", description="all turns in which a person spoke"
    )

    def query(self) -> ForgetQuery:
        single = [(self.provider, self.id)] if self.id else []
        return ForgetQuery(
            words=self.words.strip(),
            memories=(*single, *((each.provider, each.id) for each in self.memories)),
            after=None if self.after is None else self.after / 1000,
            before=None if self.before is None else self.before / 1000,
            session_id=self.session_id,
            person=self.person.strip(),
            provider=self.provider,
        )


class ForgetBody(SelectionBody):
    key: Key | None = Field(default=None, description="a second request with the same key is the same one")


class SelectionView(BaseModel):
    """What would be forgotten."""

    kind: str = Field(description="memories, words, time, conversation or person")
    turns: int = Field(description="how many turns")
    memories: list[MemoryView] = Field(description="the single memories, when words or ids selected them")
    not_searched: dict[str, str] = Field(description="why a provider could not be searched, by its name")


class ForgottenInView(View):
    """What one provider did."""

    provider: str
    state: str = Field(description="owed, done, unable or failed")
    forgotten: int = Field(description="how many memories, documents or conversations it deleted")
    note: str = Field(description="what it can't delete, or why it failed")


class ForgettingView(View):
    """The record of a forgetting, without its content."""

    id: int
    kind: str
    turns: int
    at: StoreTime = Field(validation_alias="requested")
    providers: list[ForgottenInView]


class ForgottenPage(BaseModel):
    items: list[ForgettingView]
    next_before: int | None


@router.get("")
async def status(host: HostDep) -> MemoryStatusView:
    """The state of every provider."""
    return MemoryStatusView(providers=[ProviderView.of(each) for each in await host.memory.status()])


@router.get("/search")
async def search(
    host: HostDep,
    principal: PrincipalDep,
    q: Annotated[str, Query(min_length=1, max_length=10_000)],
    provider: Annotated[str, Query(max_length=200)] = "",
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> MemoryPage:
    """Search the memories of one provider, or without a name of all."""
    searched = await host.memory.search(q, provider=provider, limit=limit, scope=principal.scope)
    return MemoryPage(items=[MemoryView.of(each) for each in searched.found], failed=dict(searched.failed))


@router.get("/set-aside")
async def set_aside(
    host: HostDep,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> SetAsidePage:
    """Turns that could not be delivered and wait for a decision, oldest first."""
    found = await host.memory.set_aside(after=after, limit=limit + 1)
    more = len(found) > limit
    return SetAsidePage(
        items=[DeliveryView.of(each) for each in found[:limit]],
        next_after=found[limit - 1].id if more else None,
    )


@router.post("/set-aside/{delivery_id}/retry", status_code=204, responses=error_responses(404, 409))
async def retry(host: HostDep, delivery_id: DeliveryId) -> None:
    """Deliver a turn again, at once."""
    await host.memory.retry(delivery_id)


@router.post("/set-aside/{delivery_id}/drop", status_code=204, responses=error_responses(404, 409))
async def drop(host: HostDep, delivery_id: DeliveryId) -> None:
    """Give up the delivery of a turn; it is kept as dropped."""
    await host.memory.drop(delivery_id)


@router.post("/forget/preview", responses=error_responses(404))
async def preview(host: HostDep, principal: PrincipalDep, body: SelectionBody) -> SelectionView:
    """What `forget` would delete. Nothing is changed."""
    await _require_own(host, principal, body.query())
    found = await host.memory.select(body.query())
    return SelectionView(
        kind=found.kind,
        turns=len(found.turns),
        memories=[MemoryView.of(each) for each in found.memories],
        not_searched=dict(found.not_searched),
    )


@router.post("/forget", responses=error_responses(404))
async def forget(host: HostDep, principal: PrincipalDep, body: ForgetBody) -> ForgettingView:
    """Delete memories for good, in every provider; the conversation itself is kept.

    The request is stored before it is carried out. The answer says how far each provider has come.
    """
    await _require_own(host, principal, body.query())
    return ForgettingView.of(await host.memory.forget(body.query(), key=principal.key(body.key)))


@router.get("/forgotten")
async def forgotten(
    host: HostDep,
    before: Annotated[int | None, Query(ge=0, le=2**53)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> ForgottenPage:
    """What was forgotten, newest first: when, how much and where, without its content."""
    found = await host.memory.forgotten(before=before, limit=limit + 1)
    return ForgottenPage(
        items=[ForgettingView.of(each) for each in found[:limit]],
        next_before=found[limit - 1].id if len(found) > limit else None,
    )


@router.post("/forgotten/{forgetting_id}/retry", status_code=204)
async def retry_forgetting(host: HostDep, forgetting_id: DeliveryId) -> None:
    """Try a forgetting again where it failed."""
    await host.memory.retry_forgetting(forgetting_id)


async def _require_own(host: SessionHost, principal: Principal, query: ForgetQuery) -> None:
    """An account forgets by conversation, its own: other ways are searched in what all have."""
    if principal.user is None:
        return
    if query != ForgetQuery(session_id=query.session_id):
        raise ProblemRaised(
            403,
            "NotForAccounts",
            "an account forgets by conversation. Nothing was forgotten.",
            "Name one with `session_id`, or ask the agent to forget single memories.",
        )
    await principal.require_own(host, query.session_id)
