"""`/healthz`, `/readyz`, `/metrics`, `/api/status`, `/api/models`: whether it lives and how it stands."""

from typing import Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel

from holdfast.core.errors import HoldfastError
from holdfast.web.contract import TheHost, TheWeb
from holdfast.web.problems import ProblemRaised, said_of
from holdfast.web.routes.memory import LaneView

router = APIRouter(tags=["health"])


class Alive(BaseModel):
    status: Literal["ok"] = "ok"


class Ready(BaseModel):
    status: Literal["ready"] = "ready"


class ToolView(BaseModel):
    name: str
    description: str


class ModelView(BaseModel):
    name: str
    context_window: int
    calls_tools: bool
    notice: str


class StatusView(BaseModel):
    """How the whole stands."""

    store: str
    running: list[str]
    waiting: list[str]
    unfinished: list[str]
    recovering: bool
    streams: int
    memory: list[LaneView]
    model: ModelView | None
    tools: list[ToolView]
    problems: list[str]


class Models(BaseModel):
    """The model that answers, and what else its server offers."""

    current: ModelView | None
    where: str
    items: list[str]
    problem: str


@router.get("/healthz", openapi_extra={"security": []})
async def healthz() -> Alive:
    """The server lives. Needs no token."""
    return Alive()


@router.get("/readyz", responses=said_of(503))
async def readyz(web: TheWeb) -> Ready:
    """The store answers, and the server takes work."""
    if web.streams.closing:
        raise ProblemRaised(503, "Closing", "Holdfast is shutting down.", "Start it again.")
    await web.host.sessions(limit=1)
    return Ready()


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **said_of()},
)
async def metrics(web: TheWeb) -> Response:
    """What Prometheus reads."""
    content, kind = web.metrics.written(await web.host.status(), web.streams.open)
    return Response(content, headers={"Content-Type": kind})


@router.get("/api/status", responses=said_of())
async def status(web: TheWeb) -> StatusView:
    """How the whole stands."""
    now = await web.host.status()
    return StatusView(
        store=now.store,
        running=now.running,
        waiting=now.waiting,
        unfinished=now.unfinished,
        recovering=now.recovering,
        streams=web.streams.open,
        memory=[LaneView.of(each) for each in now.memory],
        model=_model(web.host),
        tools=[ToolView(name=name, description=does) for name, does in web.host.tools],
        problems=list(web.host.problems),
    )


@router.get("/api/models", responses=said_of())
async def models(web: TheWeb) -> Models:
    """Which model answers, and what else its server offers."""
    where, names, problem = "", list[str](), ""
    try:
        where, names = await web.list_models()
    except HoldfastError as failure:
        problem = str(failure)
    return Models(current=_model(web.host), where=where, items=names, problem=problem)


def _model(host: TheHost) -> ModelView | None:
    traits = host.model
    if traits is None:
        return None
    return ModelView(
        name=traits.name,
        context_window=traits.context_window,
        calls_tools=traits.calls_tools,
        notice=traits.notice,
    )
