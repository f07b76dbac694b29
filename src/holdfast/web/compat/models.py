"""`GET /v1/models`: the model that answers, under the names that clients may choose."""

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from holdfast.host import SessionHost
from holdfast.web.contract import HostDep
from holdfast.web.problems import ProblemRaised, openai_error_responses

router = APIRouter(prefix="/v1", tags=["openai"])

OWN = "holdfast"


class ApiModel(BaseModel):
    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = OWN


class ApiModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[ApiModel]


@router.get("/models", responses=openai_error_responses())
async def list_models(host: HostDep) -> ApiModelList:
    """The agent and its model. A request may name either; the agent answers."""
    return ApiModelList(data=[ApiModel(id=each) for each in _names(host)])


@router.get("/models/{model}", responses=openai_error_responses(404, 422))
async def read_model(host: HostDep, model: str) -> ApiModel:
    if model not in _names(host):
        raise ProblemRaised(
            404, "model_not_found", f"there is no model {model[:200]!r}.", "List them with GET /v1/models."
        )
    return ApiModel(id=model)


def _names(host: SessionHost) -> list[str]:
    named = host.model.name if host.model else OWN
    return [OWN] if named == OWN else [OWN, named]
