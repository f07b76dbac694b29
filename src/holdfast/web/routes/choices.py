"""`/api/folders` and `/api/prompts`: folders of the list, and texts that a person sends often."""

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from holdfast.web.bodies import FolderPath, StrictBody
from holdfast.web.contract import HostDep
from holdfast.web.problems import ProblemRaised, error_responses
from holdfast.web.views import StoreTime, View

router = APIRouter(prefix="/api", tags=["choices"], responses=error_responses(422))

Name = Annotated[str, Path(min_length=1, max_length=100)]


class FolderView(View):
    name: str
    workspace: str = Field(description="where its new conversations work; empty: the usual workspace")
    conversations: int
    at: StoreTime = Field(validation_alias="created")


class FoldersView(BaseModel):
    items: list[FolderView]


class FolderBody(StrictBody):
    workspace: FolderPath = ""


class FolderNameBody(StrictBody):
    name: Annotated[str, Field(min_length=1, max_length=100)]


class PromptView(View):
    name: str
    text: str
    at: StoreTime = Field(validation_alias="changed")


class PromptsView(BaseModel):
    items: list[PromptView]


class PromptBody(StrictBody):
    text: Annotated[str, Field(min_length=1, max_length=100_000)]


@router.get("/folders")
async def folders(host: HostDep) -> FoldersView:
    """The folders of the list, by name."""
    return FoldersView(items=[FolderView.of(each) for each in await host.choices.folders()])


@router.put("/folders/{name:path}", status_code=204)
async def put_folder(host: HostDep, name: Name, body: FolderBody) -> None:
    """Make a folder, or change where its new conversations work."""
    await host.choices.put_folder(name, body.workspace)


@router.patch("/folders/{name:path}", status_code=204, responses=error_responses(404))
async def rename_folder(host: HostDep, name: Name, body: FolderNameBody) -> None:
    """Rename a folder; its conversations stay in it. The name of another folder is refused."""
    if not await host.choices.rename_folder(name, body.name):
        raise _no_folder(name)


@router.delete("/folders/{name:path}", status_code=204, responses=error_responses(404))
async def remove_folder(host: HostDep, name: Name) -> None:
    """Remove a folder; its conversations stay, in no folder."""
    if not await host.choices.remove_folder(name):
        raise _no_folder(name)


def _no_folder(name: str) -> ProblemRaised:
    return ProblemRaised(
        404, "FolderNotFound", f"there is no folder {name!r}", "GET /api/folders lists them."
    )


@router.get("/prompts")
async def prompts(host: HostDep) -> PromptsView:
    """The texts that a person keeps to send again, by name."""
    return PromptsView(items=[PromptView.of(each) for each in await host.choices.prompts()])


@router.put("/prompts/{name:path}", status_code=204)
async def put_prompt(host: HostDep, name: Name, body: PromptBody) -> None:
    """Keep a text under a name, or change it."""
    await host.choices.put_prompt(name, body.text)


@router.delete("/prompts/{name:path}", status_code=204, responses=error_responses(404))
async def remove_prompt(host: HostDep, name: Name) -> None:
    """Remove a text."""
    if not await host.choices.remove_prompt(name):
        raise ProblemRaised(
            404, "PromptNotFound", f"there is no prompt {name!r}", "GET /api/prompts lists them."
        )
