"""`/api/memory`: the state of each provider, its memories, and the deliveries that were set aside."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, BeforeValidator, Field

from holdfast.memory.contract import ProviderStatus
from holdfast.web.bodies import StrictBody
from holdfast.web.contract import HostDep
from holdfast.web.problems import error_responses
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


class ForgetBody(StrictBody):
    provider: Annotated[str, Field(min_length=1, max_length=200)]
    id: Annotated[str, Field(min_length=1, max_length=1000)]


@router.get("")
async def status(host: HostDep) -> MemoryStatusView:
    """The state of every provider."""
    return MemoryStatusView(providers=[ProviderView.of(each) for each in await host.memory.status()])


@router.get("/search")
async def search(
    host: HostDep,
    q: Annotated[str, Query(min_length=1, max_length=10_000)],
    provider: Annotated[str, Query(max_length=200)] = "",
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> MemoryPage:
    """Search the memories of one provider, or without a name of all."""
    searched = await host.memory.search(q, provider=provider, limit=limit)
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


@router.post("/forget", status_code=204)
async def forget(host: HostDep, body: ForgetBody) -> None:
    """Delete one memory of a provider for good; the conversation itself is kept."""
    await host.memory.forget(body.provider, body.id)
