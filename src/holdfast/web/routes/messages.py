"""`/api/sessions/{id}/…`: messages, turns, interrupts, approvals and answers."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from holdfast.core.contract import Message
from holdfast.core.errors import NotWaiting, TurnNotFound
from holdfast.host.contract import ContextView, TurnDetails
from holdfast.web.bodies import AnswerBody, DecisionBody, EditMessageBody, InterruptBody, MessageBody
from holdfast.web.contract import HostDep
from holdfast.web.principal import PrincipalDep
from holdfast.web.problems import error_responses
from holdfast.web.repeated_messages import refuse_another_message
from holdfast.web.views import (
    AcceptedView,
    BeforeView,
    CountedView,
    InterruptedView,
    MessagePage,
    MessageView,
    WaitingView,
)

router = APIRouter(
    prefix="/api/sessions/{session_id}", tags=["messages"], responses=error_responses(404, 409, 413, 422)
)

InboxId = Annotated[int, Path(ge=0, le=2**53)]


@router.get("/messages")
async def read_messages(
    host: HostDep,
    session_id: str,
    before: Annotated[int | None, Query(ge=0, le=2**53)] = None,
    after: Annotated[int | None, Query(ge=-1, le=2**53)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    exact: Annotated[bool, Query(description="of exactly this session, even if it has ended")] = False,
) -> MessagePage:
    """The messages, oldest first: the last ones, or those before or after a sequence number."""
    found = await host.records.messages(session_id, before=before, after=after, limit=limit + 1, exact=exact)
    part = found[:limit] if after is not None else found[-limit:]
    return MessagePage(items=[MessageView.of(each) for each in part], has_more=len(found) > len(part))


@router.get("/context")
async def read_context(host: HostDep, session_id: str) -> ContextView:
    """How much of the model's window the conversation uses, and its compactions."""
    return await host.overview.context(session_id)


@router.get("/turns/{turn_id}")
async def read_turn(host: HostDep, session_id: str, turn_id: str) -> TurnDetails:
    """One turn as a timeline, with its recalled memories and the state of its deliveries."""
    root_id = (await host.records.session(session_id)).root_id
    turn = await host.overview.turn(turn_id)
    if turn.root_id != root_id:
        raise TurnNotFound(turn_id)
    return turn


@router.post("/send", status_code=202)
async def send(host: HostDep, principal: PrincipalDep, session_id: str, body: MessageBody) -> AcceptedView:
    """Send a message. Once this has answered, the message is not lost."""
    # A misspelt id must not begin a conversation.
    key, scope = principal.key(body.key), principal.sees
    message = body.as_message()
    accepted = await host.send(session_id, message, body.mode, key=key, create=False, scope=scope)
    await refuse_another_message(host, accepted, message)
    return AcceptedView.of(accepted)


@router.post("/interrupt")
async def interrupt(
    host: HostDep, principal: PrincipalDep, session_id: str, body: InterruptBody | None = None
) -> InterruptedView:
    """Stop the running turn; its messages are kept. A text becomes the next message.

    A second request with the same `key` stores nothing and stops no other turn.
    """
    await host.records.session(session_id)  # an interrupt must not begin a conversation
    asked = body or InterruptBody()
    if asked.text:
        await principal.require_turn(host)
        key = principal.key(asked.key)
        message: Message = {"role": "user", "content": asked.text}
        accepted = await host.send(session_id, message, "interrupt", key=key)
        await refuse_another_message(host, accepted, message)
        return InterruptedView(interrupted=accepted.interrupts is not None)
    stopped = await host.interrupt(session_id, turn_id=asked.turn_id)
    return InterruptedView(interrupted=stopped)


@router.post("/approvals/{ask_id}")
async def decide(host: HostDep, session_id: str, ask_id: str, body: DecisionBody) -> CountedView:
    """Decide an approval that a turn asks for."""
    decision = f"{body.decision} {body.text}".strip() if body.decision == "always" else body.decision
    return CountedView(counted=await host.approve(session_id, ask_id, decision))


@router.get("/approvals/{ask_id}/before")
async def before_write(host: HostDep, session_id: str, ask_id: str) -> BeforeView:
    """The text in the file that an open approval is about to write, to compare with what it writes."""
    return BeforeView(text=await host.files.text_before(session_id, ask_id))


@router.post("/answers/{ask_id}")
async def answer(
    host: HostDep, principal: PrincipalDep, session_id: str, ask_id: str, body: AnswerBody
) -> CountedView:
    """Answer a turn's question. When the question is closed, the text becomes the next message."""
    key = principal.key(body.key)
    if await host.answer(session_id, ask_id, body.text, key=key, park=False):
        return CountedView(counted=True)
    await principal.require_turn(host)
    return CountedView(counted=await host.answer(session_id, ask_id, body.text, key=key))


@router.put("/waiting/{inbox_id}")
async def change_waiting(
    host: HostDep, session_id: str, inbox_id: InboxId, body: EditMessageBody
) -> WaitingView:
    """Change a message that still waits."""
    await _waits_here(host, session_id, inbox_id)
    return WaitingView.of(await host.replace_waiting(inbox_id, body.text, body.mode))


@router.delete("/waiting/{inbox_id}", status_code=204)
async def withdraw(host: HostDep, session_id: str, inbox_id: InboxId) -> None:
    """Take back a message that still waits; it stays on record."""
    await _waits_here(host, session_id, inbox_id)
    await host.records.withdraw(inbox_id)


async def _waits_here(host: HostDep, session_id: str, inbox_id: int) -> None:
    if all(each.id != inbox_id for each in await host.records.waiting(session_id)):
        raise NotWaiting(inbox_id, "taken or unknown")
