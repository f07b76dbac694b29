"""`/api/memory`: how each provider stands, what it holds, and what was set aside."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field

from holdfast.memory.contract import ProviderStatus
from holdfast.memory.looking import Found
from holdfast.sessions.contract import Delivery
from holdfast.web.bodies import Body
from holdfast.web.contract import TheHost
from holdfast.web.problems import said_of
from holdfast.web.views import milliseconds

router = APIRouter(prefix="/api/memory", tags=["memory"], responses=said_of(422))

DeliveryId = Annotated[int, Path(ge=0, le=2**53)]


class LaneView(BaseModel):
    """How one provider stands."""

    name: str
    state: str = Field(description="working, behind, failing or stuck")
    owed: int = Field(description="turns that are still to be delivered")
    oldest_age: float | None = Field(description="for how long the oldest has been owed, in seconds")
    set_aside: int
    delivered: int = Field(description="turns that this process has delivered")
    failing: bool
    last_error: str | None
    recall_stuck: bool

    @classmethod
    def of(cls, given: ProviderStatus) -> "LaneView":
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
        )


class Lanes(BaseModel):
    lanes: list[LaneView]


class FoundView(BaseModel):
    """Something that a provider remembers."""

    provider: str
    id: str | None = Field(description="names it to forget; null: it can't be named")
    text: str
    kind: str
    session_id: str
    turn_id: str | None
    speaker: str
    at: int | None

    @classmethod
    def of(cls, given: Found) -> "FoundView":
        return cls(
            provider=given.provider,
            id=given.id,
            text=given.text,
            kind=given.kind,
            session_id=given.session_id,
            turn_id=given.turn_id,
            speaker=given.speaker,
            at=None if given.created is None else int(given.created * 1000),
        )


class FoundPage(BaseModel):
    items: list[FoundView]
    failed: dict[str, str] = Field(description="why, by the name of each provider that did not answer")


class DeliveryView(BaseModel):
    """A turn that could not be delivered."""

    id: int
    provider: str
    session_id: str
    turn_id: str
    attempts: int
    last_error: str | None
    at: int

    @classmethod
    def of(cls, given: Delivery) -> "DeliveryView":
        return cls(
            id=given.id,
            provider=given.provider,
            session_id=given.session_id,
            turn_id=given.turn_id,
            attempts=given.attempts,
            last_error=given.last_error,
            at=milliseconds(given.created),
        )


class SetAside(BaseModel):
    items: list[DeliveryView]
    next_after: int | None


class Forgetting(Body):
    provider: Annotated[str, Field(min_length=1, max_length=200)]
    id: Annotated[str, Field(min_length=1, max_length=1000)]


@router.get("")
async def status(host: TheHost) -> Lanes:
    """How every provider stands."""
    return Lanes(lanes=[LaneView.of(each) for each in await host.memory.status()])


@router.get("/search")
async def search(
    host: TheHost,
    q: Annotated[str, Query(min_length=1, max_length=10_000)],
    provider: Annotated[str, Query(max_length=200)] = "",
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> FoundPage:
    """What the providers remember about something; without a name, all of them that answer."""
    searched = await host.memory.search(q, provider=provider, limit=limit)
    return FoundPage(items=[FoundView.of(each) for each in searched.found], failed=dict(searched.failed))


@router.get("/set-aside")
async def set_aside(
    host: TheHost,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> SetAside:
    """Turns that could not be delivered and wait for a decision, oldest first."""
    found = await host.memory.set_aside(after=after, limit=limit + 1)
    more = len(found) > limit
    return SetAside(
        items=[DeliveryView.of(each) for each in found[:limit]],
        next_after=found[limit - 1].id if more else None,
    )


@router.post("/set-aside/{delivery_id}/retry", status_code=204, responses=said_of(404, 409))
async def retry(host: TheHost, delivery_id: DeliveryId) -> None:
    """Owe a turn again; it is sent at once."""
    await host.memory.retry(delivery_id)


@router.post("/set-aside/{delivery_id}/drop", status_code=204, responses=said_of(404, 409))
async def drop(host: TheHost, delivery_id: DeliveryId) -> None:
    """Give up sending a turn; it stays on record as dropped."""
    await host.memory.drop(delivery_id)


@router.post("/forget", status_code=204)
async def forget(host: TheHost, body: Forgetting) -> None:
    """Remove something from a provider's memory for good; the conversation itself stays on record."""
    await host.memory.forget(body.provider, body.id)
