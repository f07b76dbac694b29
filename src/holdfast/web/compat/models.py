"""`GET /v1/models`: the one model that answers, under the names that clients may choose."""

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from holdfast.host import Host
from holdfast.web.contract import TheHost
from holdfast.web.problems import ProblemRaised, said_of_v1

router = APIRouter(prefix="/v1", tags=["openai"])

OWN = "holdfast"


class Model(BaseModel):
    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = OWN


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[Model]


@router.get("/models", responses=said_of_v1())
async def list_models(host: TheHost) -> ModelList:
    """The agent, and the model that it runs on; whichever is named, the agent answers."""
    return ModelList(data=[Model(id=each) for each in _names(host)])


@router.get("/models/{model}", responses=said_of_v1(404, 422))
async def read_model(host: TheHost, model: str) -> Model:
    if model not in _names(host):
        raise ProblemRaised(
            404, "model_not_found", f"there is no model {model[:200]!r}.", "List them with GET /v1/models."
        )
    return Model(id=model)


def _names(host: Host) -> list[str]:
    named = host.model.name if host.model else OWN
    return [OWN] if named == OWN else [OWN, named]
