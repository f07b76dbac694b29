"""`Permissions`: asks the person at the editor what a turn asks, and gives the host the answer."""

import asyncio
import logging
from collections.abc import Mapping, Sequence

from acp import RequestError, schema, tool_content
from acp.helpers import text_block
from acp.interfaces import Client

from holdfast.acp.tool_updates import ShownCall
from holdfast.core.errors import HoldfastError
from holdfast.core.events import ApprovalAsked, AskClosed, QuestionAsked
from holdfast.core.messages import storable
from holdfast.host import SessionHost
from holdfast.tools.open_questions import NOBODY

logger = logging.getLogger(__name__)

ANSWERS: Mapping[str, tuple[str, schema.PermissionOptionKind]] = {
    "yes": ("Allow once", "allow_once"),
    "always": ("Always allow in this conversation", "allow_always"),
    "no": ("Reject", "reject_once"),
}
NO_CHOICE = "none"
ASK_IN_TEXT = (
    "This editor can't show a question without choices. Ask it in your answer and end your turn; the person "
    "answers with the next message."
)


def approval_options(decisions: Sequence[str]) -> list[schema.PermissionOption]:
    """The answers that have an effect."""
    known = [(each, *ANSWERS[each]) for each in decisions if each in ANSWERS]
    return [schema.PermissionOption(option_id=word, name=name, kind=kind) for word, name, kind in known]


def choice_options(choices: Sequence[str]) -> list[schema.PermissionOption]:
    """The choices of a question, and a way to take none."""
    named = [
        schema.PermissionOption(option_id=str(number), name=storable(choice), kind="allow_once")
        for number, choice in enumerate(choices, 1)
    ]
    return [*named, schema.PermissionOption(option_id=NO_CHOICE, name="None of these", kind="reject_once")]


def asked_about(asked: ApprovalAsked | QuestionAsked, call: ShownCall) -> schema.ToolCallUpdate:
    """The call with what is asked: a person must see everything that they allow."""
    if isinstance(asked, QuestionAsked):
        update = call.asked(asked.question)
        return update.model_copy(update={"title": storable(asked.question)[:500] or "A question"})
    warning = "This can't be undone. " if asked.destructive else ""
    why = f" ({asked.reason})" if asked.reason else ""
    update = call.asked(asked.subject)
    words = tool_content(
        text_block(storable(f"{warning}Allow this {asked.subject_kind}{why}?\n{asked.subject}"))
    )
    diff = call.diff()
    return update.model_copy(update={"content": [*diff, words]})


class Permissions:
    """The questions of one session that are open at the editor."""

    def __init__(self, client: Client, session_id: str, host: SessionHost) -> None:
        """`session_id` is the editor's name of the session."""
        self._client = client
        self._session_id = session_id
        self._host = host
        self._open: dict[str, asyncio.Task[None]] = {}

    def ask(self, asked: ApprovalAsked | QuestionAsked, call: ShownCall) -> None:
        """Ask in the background. The answer may also come from another surface."""
        task = asyncio.create_task(self._ask(asked, call), name=f"permission {asked.ask_id}")
        self._open[asked.ask_id] = task
        task.add_done_callback(lambda _: self._open.pop(asked.ask_id, None))

    def closed(self, event: AskClosed) -> None:
        """The question is decided; an answer that comes now would have no effect."""
        task = self._open.pop(event.ask_id, None)
        if task is not None:
            task.cancel()

    def close(self) -> None:
        for task in list(self._open.values()):
            task.cancel()

    async def _ask(self, asked: ApprovalAsked | QuestionAsked, call: ShownCall) -> None:
        try:
            said = await self._answer(asked, call)
            if said is not None:
                await self._host.answer(asked.session_id, asked.ask_id, said)
        except ConnectionError:
            logger.info("acp.editor_gone", extra={"ask": asked.ask_id})
        except HoldfastError:
            logger.warning("acp.answer_refused", exc_info=True, extra={"ask": asked.ask_id})
        except Exception:
            logger.exception("acp.not_asked", extra={"ask": asked.ask_id})

    async def _answer(self, asked: ApprovalAsked | QuestionAsked, call: ShownCall) -> str | None:
        if isinstance(asked, QuestionAsked):
            if not asked.choices:
                return ASK_IN_TEXT
            options = choice_options(asked.choices)
        else:
            options = approval_options(asked.decisions)
        try:
            response = await self._client.request_permission(
                session_id=self._session_id, tool_call=asked_about(asked, call), options=options
            )
        except RequestError as refusal:
            logger.warning("acp.editor_refused", extra={"cause": str(refusal)})
            return NOBODY if isinstance(asked, ApprovalAsked) else ASK_IN_TEXT
        chosen = response.outcome
        if not isinstance(chosen, schema.AllowedOutcome):
            # The editor cancels the turn, which closes the question by itself.
            return None if isinstance(asked, QuestionAsked) else "no"
        if isinstance(asked, ApprovalAsked):
            return chosen.option_id if chosen.option_id in asked.decisions else "no"
        return "The person takes none of these." if chosen.option_id == NO_CHOICE else chosen.option_id
