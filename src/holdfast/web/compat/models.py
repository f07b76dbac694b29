"""`GET /v1/models`: the agent, its usual model, and the others that a request may name."""

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from holdfast.web.compat.api_turn import OWN_NAME, models_for
from holdfast.web.contract import WebDep, WebParts
from holdfast.web.principal import Principal, PrincipalDep
from holdfast.web.problems import ProblemRaised, openai_error_responses

router = APIRouter(prefix="/v1", tags=["openai"])


class ApiModel(BaseModel):
    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = OWN_NAME


class ApiModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[ApiModel]


@router.get("/models", responses=openai_error_responses())
async def list_models(web: WebDep, principal: PrincipalDep) -> ApiModelList:
    """The agent, its usual model, and the others on offer. The agent answers, with the one that is named."""
    return ApiModelList(data=[ApiModel(id=each) for each in await _names(web, principal)])


@router.get("/models/{model}", responses=openai_error_responses(404, 422))
async def read_model(web: WebDep, principal: PrincipalDep, model: str) -> ApiModel:
    if model not in await _names(web, principal):
        raise ProblemRaised(
            404, "model_not_found", f"there is no model {model[:200]!r}.", "List them with GET /v1/models."
        )
    return ApiModel(id=model)


async def _names(web: WebParts, principal: Principal) -> list[str]:
    usual = [web.host.model.name] if web.host.model else []
    return list(dict.fromkeys([OWN_NAME, *usual, *await models_for(web, principal)]))
