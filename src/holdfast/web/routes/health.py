"""`/healthz`, `/readyz`, `/api/status`: whether it lives, whether it can work, how it stands."""

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from holdfast.web.contract import TheWeb
from holdfast.web.problems import ProblemRaised, said_of

router = APIRouter(tags=["health"])


class Alive(BaseModel):
    status: Literal["ok"] = "ok"


class Ready(BaseModel):
    status: Literal["ready"] = "ready"


@router.get("/healthz")
async def healthz() -> Alive:
    """The server lives. Needs no token."""
    return Alive()


@router.get("/readyz", responses=said_of(503))
async def readyz(web: TheWeb) -> Ready:
    """The store answers and the server takes work."""
    if web.streams.closing:
        raise ProblemRaised(503, "Closing", "Holdfast is shutting down.", "Start it again.")
    await web.host.status()
    return Ready()
