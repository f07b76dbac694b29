"""`/api/sessions/{id}/…`: speak, interrupt, decide and answer, read what was said and what waits."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from holdfast.core.errors import NotWaiting, TurnNotFound
from holdfast.host.contract import ContextView, TurnView
from holdfast.web.bodies import Answer, Changed, Decision, Interruption, NewMessage
from holdfast.web.contract import TheHost
from holdfast.web.problems import said_of
from holdfast.web.views import AcceptedView, Counted, Interrupted, MessagePage, MessageView, WaitingView

router = APIRouter(
    prefix="/api/sessions/{session_id}", tags=["talking"], responses=said_of(404, 409, 413, 422)
)

InboxId = Annotated[int, Path(ge=0, le=2**53)]


@router.get("/messages")
async def read_messages(
    host: TheHost,
    session_id: str,
    before: Annotated[int | None, Query(ge=0, le=2**53)] = None,
    after: Annotated[int | None, Query(ge=-1, le=2**53)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    exact: Annotated[bool, Query(description="of the very session named, also an ended one")] = False,
) -> MessagePage:
    """What was said, oldest first: the last messages, or those before or after a place."""
    found = await host.messages(session_id, before=before, after=after, limit=limit + 1, exact=exact)
    part = found[:limit] if after is not None else found[-limit:]
    return MessagePage(items=[MessageView.of(each) for each in part], has_more=len(found) > len(part))


@router.get("/context")
async def read_context(host: TheHost, session_id: str) -> ContextView:
    """What the conversation takes of the model's window, and the compactions behind it."""
    return await host.context(session_id)


@router.get("/turns/{turn_id}")
async def read_turn(host: TheHost, session_id: str, turn_id: str) -> TurnView:
    """One turn as a timeline, with what memory recalled for it and how its deliveries stand."""
    root_id = (await host.session(session_id)).root_id
    turn = await host.turn(turn_id)
    if turn.root_id != root_id:
        raise TurnNotFound(turn_id)
    return turn


@router.post("/send", status_code=202)
async def send(host: TheHost, session_id: str, body: NewMessage) -> AcceptedView:
    """Say something. Once this has answered, the message is not lost."""
    # A misspelt id begins no conversation.
    accepted = await host.send(session_id, body.as_message(), body.mode, key=body.key, create=False)
    return AcceptedView.of(accepted)


@router.post("/interrupt")
async def interrupt(host: TheHost, session_id: str, body: Interruption | None = None) -> Interrupted:
    """Stop the running turn; what it had produced is kept. A text becomes the next message."""
    await host.session(session_id)  # no conversation begins with an interrupt
    return Interrupted(interrupted=await host.interrupt(session_id, body.text if body else ""))


@router.post("/approvals/{ask_id}")
async def decide(host: TheHost, session_id: str, ask_id: str, body: Decision) -> Counted:
    """Allow or refuse what a turn asks for."""
    decision = f"{body.decision} {body.text}".strip() if body.decision == "always" else body.decision
    return Counted(counted=await host.approve(session_id, ask_id, decision))


@router.post("/answers/{ask_id}")
async def answer(host: TheHost, session_id: str, ask_id: str, body: Answer) -> Counted:
    """Answer a turn's question. When it is settled already, the text becomes the next message."""
    return Counted(counted=await host.answer(session_id, ask_id, body.text))


@router.put("/waiting/{inbox_id}")
async def change_waiting(host: TheHost, session_id: str, inbox_id: InboxId, body: Changed) -> WaitingView:
    """Change a message that still waits."""
    await _waits_here(host, session_id, inbox_id)
    return WaitingView.of(await host.replace_waiting(inbox_id, body.text, body.mode))


@router.delete("/waiting/{inbox_id}", status_code=204)
async def withdraw(host: TheHost, session_id: str, inbox_id: InboxId) -> None:
    """Take back a message that still waits; it stays on record."""
    await _waits_here(host, session_id, inbox_id)
    await host.withdraw(inbox_id)


async def _waits_here(host: TheHost, session_id: str, inbox_id: int) -> None:
    if all(each.id != inbox_id for each in await host.waiting(session_id)):
        raise NotWaiting(inbox_id, "taken or unknown")
