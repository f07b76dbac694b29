"""`/api/sessions/{id}/…`: speak, interrupt, decide and answer, read what was said."""

from typing import Annotated

from fastapi import APIRouter, Query

from holdfast.web.bodies import Answer, Decision, Interruption, NewMessage
from holdfast.web.contract import TheHost
from holdfast.web.problems import said_of
from holdfast.web.views import AcceptedView, Counted, Interrupted, MessagePage, MessageView

router = APIRouter(prefix="/api/sessions/{session_id}", tags=["talking"])


@router.get("/messages", responses=said_of(404, 422))
async def read_messages(
    host: TheHost,
    session_id: str,
    before: Annotated[int | None, Query(ge=0, le=2**53)] = None,
    after: Annotated[int | None, Query(ge=-1, le=2**53)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> MessagePage:
    """What was said, oldest first: the last messages, or those before or after a place."""
    stored = await host.messages(session_id)
    if after is not None:
        found = [each for each in stored if each.seq > after]
        part = found[:limit]
    else:
        found = [each for each in stored if before is None or each.seq < before]
        part = found[-limit:]
    return MessagePage(items=[MessageView.of(each) for each in part], has_more=len(found) > len(part))


@router.post("/send", status_code=202, responses=said_of(404, 409, 413, 422))
async def send(host: TheHost, session_id: str, body: NewMessage) -> AcceptedView:
    """Say something. Once this has answered, the message is not lost."""
    return AcceptedView.of(await host.send(session_id, body.as_message(), body.mode, key=body.key))


@router.post("/interrupt", responses=said_of(404, 422))
async def interrupt(host: TheHost, session_id: str, body: Interruption | None = None) -> Interrupted:
    """Stop the running turn; what it had produced is kept. A text becomes the next message."""
    return Interrupted(interrupted=await host.interrupt(session_id, body.text if body else ""))


@router.post("/approvals/{ask_id}", responses=said_of(404, 422))
async def decide(host: TheHost, session_id: str, ask_id: str, body: Decision) -> Counted:
    """Allow or refuse what a turn asks for."""
    decision = f"{body.decision} {body.text}".strip() if body.decision == "always" else body.decision
    return Counted(counted=await host.approve(session_id, ask_id, decision))


@router.post("/answers/{ask_id}", responses=said_of(404, 422))
async def answer(host: TheHost, session_id: str, ask_id: str, body: Answer) -> Counted:
    """Answer a turn's question. When it is settled already, the text becomes the next message."""
    return Counted(counted=await host.answer(session_id, ask_id, body.text))
