"""`/api/sessions/{id}/…`: commands that run between turns. The session's events show their progress."""

from fastapi import APIRouter

from holdfast.web.background import start_or_refuse
from holdfast.web.bodies import CompactBody, KeyBody
from holdfast.web.contract import HostDep, WebDep
from holdfast.web.problems import error_responses
from holdfast.web.views import CommandView

router = APIRouter(
    prefix="/api/sessions/{session_id}", tags=["commands"], responses=error_responses(404, 409, 422, 502)
)


@router.post("/retry", status_code=202)
async def retry(host: HostDep, session_id: str, body: KeyBody | None = None) -> CommandView:
    """Send the last message again, as if it had no answer; the response names its session."""
    return CommandView(session_id=await host.commands.retry(session_id, key=body.key if body else None))


@router.post("/resume", status_code=202)
async def resume(web: WebDep, session_id: str) -> CommandView:
    """Resume a turn that a crash cut off."""
    await start_or_refuse(web.background, web.host.commands.resume(session_id))
    return CommandView(session_id=(await web.host.records.session(session_id)).session.id)


@router.post("/drop", status_code=202)
async def drop(host: HostDep, session_id: str) -> CommandView:
    """End a turn that a crash cut off; its messages are kept."""
    await host.commands.drop(session_id)
    return CommandView(session_id=(await host.records.session(session_id)).session.id)


@router.post("/compact", status_code=202)
async def compact(web: WebDep, session_id: str, body: CompactBody | None = None) -> CommandView:
    """Summarise the conversation now."""
    await start_or_refuse(web.background, web.host.commands.compact(session_id, body.focus if body else ""))
    return CommandView(session_id=(await web.host.records.session(session_id)).session.id)


@router.post("/run_waiting", status_code=202)
async def run_waiting(host: HostDep, session_id: str) -> CommandView:
    """Run the messages that an earlier run of the program left waiting."""
    await host.commands.run_waiting(session_id)
    return CommandView(session_id=(await host.records.session(session_id)).session.id)
