"""`/api/sessions/{id}/…`: what is done between turns. The session's events tell how it goes on."""

from fastapi import APIRouter

from holdfast.web.bodies import Focus
from holdfast.web.contract import TheHost, TheWeb
from holdfast.web.problems import said_of
from holdfast.web.views import Going

router = APIRouter(
    prefix="/api/sessions/{session_id}", tags=["talking"], responses=said_of(404, 409, 422, 502)
)


@router.post("/retry", status_code=202)
async def retry(host: TheHost, session_id: str) -> Going:
    """Say the last message again, as if it had not been answered; names the session it is in."""
    return Going(session_id=await host.retry(session_id))


@router.post("/resume", status_code=202)
async def resume(web: TheWeb, session_id: str) -> Going:
    """Go on with a turn that a crash cut off."""
    await web.background.start(web.host.resume(session_id))
    return Going(session_id=(await web.host.session(session_id)).session.id)


@router.post("/drop", status_code=202)
async def drop(host: TheHost, session_id: str) -> Going:
    """End a turn that a crash cut off; what it had produced stays on record."""
    await host.drop(session_id)
    return Going(session_id=(await host.session(session_id)).session.id)


@router.post("/compact", status_code=202)
async def compact(web: TheWeb, session_id: str, body: Focus | None = None) -> Going:
    """Summarise the conversation now."""
    await web.background.start(web.host.compact(session_id, body.focus if body else ""))
    return Going(session_id=(await web.host.session(session_id)).session.id)


@router.post("/run_waiting", status_code=202)
async def run_waiting(host: TheHost, session_id: str) -> Going:
    """Run the messages that an earlier run of the program left waiting."""
    await host.run_waiting(session_id)
    return Going(session_id=(await host.session(session_id)).session.id)
