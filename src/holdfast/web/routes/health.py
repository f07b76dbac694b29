"""`/healthz`, `/readyz`, `/metrics`, `/api/status` and `/api/models`: the state of the server."""

from typing import Annotated, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from holdfast.core.errors import HoldfastError
from holdfast.host import HostStatus
from holdfast.models.contract import ListedModel
from holdfast.sessions.user_records import UserRole
from holdfast.sessions.users import Users
from holdfast.web.bodies import StrictBody
from holdfast.web.contract import HostDep, WebDep, WebParts
from holdfast.web.principal import PrincipalDep
from holdfast.web.problems import ProblemRaised, error_responses
from holdfast.web.routes.memory import ProviderView
from holdfast.web.views import View

router = APIRouter(tags=["health"])


class HealthView(BaseModel):
    status: Literal["ok"] = "ok"


class ReadyView(BaseModel):
    status: Literal["ready"] = "ready"


class ToolView(BaseModel):
    name: str
    description: str


class ModelView(View):
    name: str
    context_window: int
    calls_tools: bool
    sees_pictures: bool
    notice: str
    parameters: int | None = Field(description="how many it has; null where nobody says")


class TroubleView(BaseModel):
    """Why one conversation can't go on."""

    session_id: str
    trouble: str


class AccountView(BaseModel):
    """For whom this browser is let in."""

    name: str
    can_sign_out: bool = Field(description="false where a proxy signs people in")
    is_owner: bool = Field(description="whether it is the installation, which may ask for everything")
    id: str = Field(default="", description="of the account; empty: the installation")
    role: UserRole | None = Field(default=None, description="of the account; null: the installation")


class StatusView(BaseModel):
    """The state of the server."""

    account: AccountView | None = Field(description="null where there are no accounts")

    store: str
    running: list[str]
    waiting: list[str]
    unfinished: list[str]
    recovering: bool
    troubles: list[TroubleView]
    streams: int
    memory: list[ProviderView]
    model: ModelView | None
    tools: list[ToolView]
    tool_profile: str = Field(
        description="which tools the model is told of where a conversation has chosen nothing else, and why"
    )
    tool_profiles: list[str] = Field(description="the tool profiles that there are")
    sandbox: str
    workspace: str
    approval: str
    problems: list[str]
    folders: list[str] = Field(description="the folders of the list")
    chats_waiting: int = Field(
        description="strangers who ask to be let in on chat platforms, and what could not be delivered there"
    )


class ListedModelView(BaseModel):
    """A model as its server lists it; null where the server does not say."""

    name: str
    context_window: int | None
    calls_tools: bool | None
    sees_pictures: bool | None
    price_input: float | None = Field(description="dollars for a million tokens read")
    price_output: float | None = Field(description="dollars for a million tokens written")


class ModelsView(BaseModel):
    """The model that answers, and the other models of its server."""

    current: ModelView | None
    where: str
    items: list[str]
    details: list[ListedModelView] = []
    problem: str


class ModelChoiceBody(StrictBody):
    name: Annotated[str, Field(min_length=1, max_length=1000)] = Field(description="NAME or PROVIDER:NAME")


@router.get("/healthz", openapi_extra={"security": []})
async def healthz() -> HealthView:
    """The server is alive. Needs no token."""
    return HealthView()


@router.get("/readyz", responses=error_responses(503))
async def readyz(web: WebDep) -> ReadyView:
    """The store can be written, and the server accepts requests."""
    if web.streams.closing:
        raise ProblemRaised(503, "Closing", "Holdfast is shutting down.", "Start it again.")
    await web.host.records.require_store()
    return ReadyView()


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **error_responses()},
)
async def metrics(web: WebDep) -> Response:
    """Metrics for Prometheus."""
    content, kind = web.metrics.render(await web.host.overview.status(), web.streams.open)
    return Response(content, headers={"Content-Type": kind})


@router.get("/api/status", responses=error_responses())
async def status(web: WebDep, principal: PrincipalDep) -> StatusView:
    """The state of the server; for an account, of its own conversations."""
    now = await web.host.overview.status()
    if principal.user is not None:
        user = principal.user
        account = AccountView(
            name=user.name,
            can_sign_out=bool(principal.token_id),
            is_owner=False,
            id=user.id,
            role=user.role,
        )
        return await _status_of_account(web, now, principal.user.scope, account)
    shared = await web.host.accounts.users(Users.exist)
    return StatusView(
        account=AccountView(name="Installation", can_sign_out=True, is_owner=True) if shared else None,
        store=now.store,
        running=now.running,
        waiting=now.waiting,
        unfinished=now.unfinished,
        recovering=now.recovering,
        troubles=[TroubleView(session_id=each, trouble=words) for each, words in now.troubles.items()],
        streams=web.streams.open,
        memory=[ProviderView.of(each) for each in now.memory],
        model=_model(web.host),
        sandbox=now.sandbox,
        workspace=now.workspace,
        approval=now.approval,
        tools=[ToolView(name=name, description=does) for name, does in web.host.tools],
        tool_profile=now.tool_profile,
        tool_profiles=list(web.host.overview.tool_profiles),
        problems=list(web.host.overview.problems),
        folders=[each.name for each in await web.host.choices.folders()],
        chats_waiting=await web.host.chats.waiting(),
    )


async def _status_of_account(web: WebParts, now: HostStatus, scope: str, account: AccountView) -> StatusView:
    """Without what is the installation's: its store, its folders, its memory providers, its chats."""
    named = {*now.running, *now.waiting, *now.unfinished, *now.troubles}
    own = await web.host.accounts.own(scope, named)
    return StatusView(
        account=account,
        store="",
        running=[each for each in now.running if each in own],
        waiting=[each for each in now.waiting if each in own],
        unfinished=[each for each in now.unfinished if each in own],
        recovering=now.recovering,
        troubles=[
            TroubleView(session_id=each, trouble=words) for each, words in now.troubles.items() if each in own
        ],
        streams=0,
        memory=[],
        model=_model(web.host),
        sandbox=now.sandbox,
        workspace="a folder of this account",
        approval="ask",
        tools=[ToolView(name=name, description=does) for name, does in web.host.tools],
        tool_profile=now.tool_profile,
        tool_profiles=list(web.host.overview.tool_profiles),
        problems=[],
        folders=[],
        chats_waiting=0,
    )


@router.get("/api/models", responses=error_responses())
async def models(host: HostDep, principal: PrincipalDep) -> ModelsView:
    """The model that answers, and the other models of its server."""
    try:
        found = await host.models()
    except HoldfastError as failure:
        problem = str(failure) if principal.user is None else "the models can't be listed just now"
        return ModelsView(current=_model(host), where="", items=[], problem=problem)
    return ModelsView(
        current=_model(host),
        where=found.where if principal.user is None else "",
        items=found.names,
        details=[_listed(each) for each in found.details],
        problem="",
    )


@router.put("/api/models/current", responses=error_responses(422, 502))
async def switch_model(web: WebDep, body: ModelChoiceBody) -> ModelView:
    """Use another model as the usual one, in this server, from each conversation's next turn on."""
    chosen = ModelView.of(await web.host.switch_model(body.name))
    web.on_model(body.name)
    return chosen


def _listed(model: ListedModel) -> ListedModelView:
    return ListedModelView(
        name=model.name,
        context_window=model.context_window,
        calls_tools=model.calls_tools,
        sees_pictures=model.sees_pictures,
        price_input=model.prices.input,
        price_output=model.prices.output,
    )


def _model(host: HostDep) -> ModelView | None:
    return ModelView.of(host.model) if host.model else None
