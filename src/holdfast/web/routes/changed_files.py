"""`/api/sessions/{id}/changes` and `undo`: what turns did to files, and taking it back."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from holdfast.tools.file_diff import FileDiff
from holdfast.tools.file_history import UndoneFile
from holdfast.web.bodies import UndoBody, UndoFilesBody
from holdfast.web.contract import HostDep
from holdfast.web.problems import error_responses
from holdfast.web.session_views import view_of
from holdfast.web.views import SessionView

router = APIRouter(
    prefix="/api/sessions/{session_id}", tags=["files"], responses=error_responses(404, 409, 422)
)


class ChangesView(BaseModel):
    """What turns did to files. Commands count only for the files of the workspace that they name."""

    items: list[FileDiff]


class UndoneFilesView(BaseModel):
    """What became of each file; one that was changed since is `left`, with the reason."""

    files: list[UndoneFile]


class UndoneView(UndoneFilesView):
    """The conversation goes on in a copy that ends before the message; the original is kept."""

    session: SessionView
    text: str = Field(description="the message that was taken back")


@router.get("/changes")
async def read_changes(
    host: HostDep,
    session_id: str,
    turn_id: Annotated[str | None, Query(description="only what this turn did", max_length=200)] = None,
) -> ChangesView:
    """What a turn, or the whole conversation, did to files: one diff for each file."""
    return ChangesView(items=await host.files.changes(session_id, turn_id))


@router.post("/undo", status_code=201)
async def undo(host: HostDep, session_id: str, body: UndoBody | None = None) -> UndoneView:
    """Take back the last message and all that followed; with `files`, also what was done to files."""
    asked = body or UndoBody()
    undone = await host.undo(session_id, before=asked.before, files=asked.files, key=asked.key)
    return UndoneView(
        session=await view_of(host, undone.session_id), text=undone.text, files=list(undone.files)
    )


@router.post("/undo-files")
async def undo_files(host: HostDep, session_id: str, body: UndoFilesBody | None = None) -> UndoneFilesView:
    """Put files back as they were before a turn, or before the conversation; what was said stays."""
    return UndoneFilesView(files=await host.files.undo(session_id, body.turn_id if body else None))
