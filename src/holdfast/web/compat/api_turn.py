"""`ApiTurn`: one request of `/v1` is one message and its turn, in a new session or in a named one.

A client of `/v1` sends the whole conversation with each request. In a session that exists, only the last
message is new; a new session begins with the messages before it. An unnamed session is the API's own: it is
listed apart, memory has no part in it, and it is deleted after a while (`host/retention.py`); one that stayed
empty is deleted at once. Results of the client's tools go on in the session that waits for them. No person
can be asked, so a tool call that needs approval is refused unless a rule allows it. When the client closes
its connection, the turn stops, as with other servers; what the turn had produced is kept.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Literal

from holdfast.agent.client_request import PLAIN, ClientRequest, with_request
from holdfast.agent.system_text import with_system
from holdfast.core.content import Checked
from holdfast.core.contract import ToolCall
from holdfast.core.errors import HoldfastError, Refused, Retryable, SessionNotFound
from holdfast.core.events import (
    Event,
    ModelRetrying,
    ReasoningDelta,
    SessionSnapshot,
    SessionTrouble,
    StepFinished,
    TextDelta,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
)
from holdfast.core.ids import id_for, new_id
from holdfast.core.messages import text_of
from holdfast.host import API_SOURCE, AskOptions, TurnHandle, turn_error
from holdfast.models.contract import Usage
from holdfast.sessions.contract import NOTHING_CHOSEN, ConversationChoice
from holdfast.web.compat.client_calls import BroughtResults, with_turn_ids
from holdfast.web.compat.openai_messages import NewWords, session_header
from holdfast.web.contract import WebParts
from holdfast.web.openai_errors import OpenAIFault, fault, sentences
from holdfast.web.principal import INSTALLATION_ITSELF, Principal
from holdfast.web.problems import ProblemRaised, status_of
from holdfast.web.streams import OpenStreams

RESPONSE_PREFIX = "resp_"
OWN_NAME = "holdfast"
"""The name of the agent with whichever model its session has."""
BETWEEN_STEPS = "\n\n"
COMPARED = 1_000
"""How many stored messages a client's history is compared with."""
FAILURE_STATUSES = (400, 401, 403, 404, 409, 413, 422, 502)
"""The statuses of a message that was refused, or of a turn that gave no answer."""


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """What a client wants answered, and in which session."""

    session_id: str
    words: NewWords
    client: ClientRequest = PLAIN
    model: str = ""
    """The model that it names; one on offer is used in the session from now on, any other is ignored."""
    memory: bool | None = None
    """Whether memory has a part in the turn; None: unless the session is the API's own."""
    response_id: str = ""
    """The earlier response whose session this request continues; that session must exist."""
    principal: Principal = INSTALLATION_ITSELF
    """For whom the turn is."""
    keep: bool = True
    """False: a session of the API's own is deleted once its answer is given."""


async def models_for(web: WebParts, principal: Principal) -> list[str]:
    """The models that a request may name; to an account the settings may offer fewer."""
    return await web.host.choices.offered(web.settings.user_models if principal.user else ())


@dataclass(slots=True)
class AnswerDelta:
    """The next part of the answer."""

    text: str = ""
    reasoning: str = ""
    calls: Sequence[ToolCall] = ()
    """Calls of the client's tools; they come last, all at once."""


class TurnStopped(Refused):
    """Somebody interrupted the turn."""


class AnswerFailed(HoldfastError):
    """The turn ended without an answer."""

    def __init__(self, fault: OpenAIFault) -> None:
        super().__init__(fault.message)
        self.fault = fault


@dataclass(slots=True)
class ApiTurn:
    """One turn as a client of `/v1` sees it."""

    web: WebParts
    request: ApiRequest
    session_id: str = ""
    history_differs: bool = False
    """Whether the client's history is not the stored one; the stored one counts."""
    calls: Sequence[ToolCall] = ()
    """The calls that are handed to the client."""
    model: str = ""
    """The model that is asked."""
    _is_cut: bool = False
    _is_own: bool = False  # the session is the API's own
    _texts: list[str] = field(default_factory=lambda: [""])
    _message: Checked | None = None
    _history: Sequence[Checked] = ()
    _new: bool = True
    _chosen: str | None = None  # None: as the session has it; empty: the usual one
    _handle: TurnHandle | None = None

    @property
    def turn_id(self) -> str:
        return self._handle.turn_id if self._handle else ""

    @property
    def usage(self) -> Usage:
        """The tokens of the whole turn."""
        return self._handle.usage if self._handle else Usage()

    @property
    def text(self) -> str:
        """The text of the whole turn, its steps one after the other."""
        return BETWEEN_STEPS.join(each for each in self._texts if each)

    @property
    def response_id(self) -> str:
        """Tells the session and the message; "" until the message is stored."""
        return f"{RESPONSE_PREFIX}{self.session_id}_{self._handle.inbox_id}" if self._handle else ""

    @property
    def finish_reason(self) -> Literal["stop", "length", "tool_calls"]:
        return "tool_calls" if self.calls else "length" if self._is_cut else "stop"

    @property
    def headers(self) -> dict[str, str]:
        """Names the session in the response's headers."""
        differs = {"X-Holdfast-History": "differs"} if self.history_differs else {}
        return session_header(self.session_id) | differs

    async def prepare(self) -> None:
        """Find the session and check the message, before anything is stored or streamed."""
        request, host, words = self.request, self.web.host, self.request.words
        self.session_id = await self._find_session()
        message = words.new
        if isinstance(message, BroughtResults):
            message = await message.message(host, request.principal.sees)
        memory = not self._is_own if request.memory is None else request.memory
        asked = with_request(with_system(message, words.system), replace(request.client, memory=memory))
        self._message, self._history = await host.checked(asked, words.history)
        await self._find_model()

    async def _find_model(self) -> None:
        """Open the model that the request names, where it is on offer to this principal."""
        host, wanted = self.web.host, self.request.model
        before = NOTHING_CHOSEN if self._new else await host.choices.of_conversation(self.session_id)
        usual = host.model.name if host.model else OWN_NAME
        if wanted == usual:
            self._chosen = ""
        elif wanted not in ("", OWN_NAME) and wanted in await models_for(self.web, self.request.principal):
            self._chosen = (await host.choices.checked(ConversationChoice(model=wanted))).model
        if self._chosen == before.model:
            self._chosen = None
        self.model = (before.model if self._chosen is None else self._chosen) or usual

    async def _find_session(self) -> str:
        request, host, principal = self.request, self.web.host, self.request.principal
        wanted = request.session_id
        if not wanted and isinstance(request.words.new, BroughtResults):
            wanted = await request.words.new.waiting_session(host, principal.sees) or ""
        if not wanted:
            self._is_own = True
            return new_id()  # it begins with the message
        wanted = await self._own_name(wanted)
        try:
            await principal.require_own(host, wanted)
            session = (await host.records.session(wanted)).session
        except SessionNotFound:
            if request.response_id:
                raise ProblemRaised(
                    400,
                    "previous_response_not_found",
                    f"there is no response {request.response_id[:200]!r} here.",
                    "Leave out `previous_response_id`, and send the conversation so far.",
                ) from None
            return wanted
        self._new, self._is_own = False, session.source == API_SOURCE
        self.history_differs = bool(request.session_id) and await self._differs(session.id)
        return session.id

    async def _own_name(self, wanted: str) -> str:
        """The session that a name means here; two accounts may choose the same name."""
        principal, request = self.request.principal, self.request
        if principal.user is None or request.response_id:
            return wanted
        owned = await self.web.host.accounts.owns(principal.scope, wanted)
        return wanted if owned else id_for("session of an account", principal.scope, wanted)

    async def _differs(self, session_id: str) -> bool:
        """Whether the user's messages in the client's history are not the stored ones."""
        by_client = [text_of(each) for each in self.request.words.history if each["role"] == "user"]
        if not by_client:
            return False
        stored = await self.web.host.records.messages(session_id, limit=COMPARED)
        said = [text_of(each.message) for each in stored if each.message["role"] == "user"]
        rest = iter(said)
        return not all(text in rest for text in by_client[-len(said) :] if said)

    async def run(self, streams: OpenStreams) -> AsyncGenerator[AnswerDelta, None]:
        """Send the message and give its answer in parts; raises `AnswerFailed`."""
        options = AskOptions(
            history=self._history,
            source=API_SOURCE if self._is_own else None,
            scope=self.request.principal.sees,
            choice=ConversationChoice(model=self._chosen or ""),
            new=self._new,
            discard_empty=self._is_own and self._new,
        )
        if self._message is None:
            raise RuntimeError("a turn runs after prepare()")
        if self._chosen is not None and not self._new:
            await self.web.host.choices.choose(self.session_id, model=self._chosen)
        self._handle = handle = await self.web.host.start_turn(self.session_id, self._message, options)
        try:
            async with aclosing(streams.read(handle.batches())) as batches:
                async for batch in batches:
                    delta = AnswerDelta()
                    for event in batch:
                        self._add(event, delta)
                    if delta.text or delta.reasoning:
                        yield delta
                        if handle.end is None:
                            await streams.pause()
        finally:
            if handle.end is None:
                handle.abandon()
        self._require_answer(handle)
        if self.request.client.tools and (handed := await self.web.host.records.client_calls(self.turn_id)):
            self.calls = with_turn_ids(self.turn_id, handed.calls)
            yield AnswerDelta(calls=self.calls)
        elif self._is_own and not self.request.keep:
            handle.discard()

    def _add(self, event: Event, delta: AnswerDelta) -> None:
        # An answer in a form may be tried again, so its text is given when it is whole and fits.
        held = self.request.client.schema is not None
        match event:
            case TextDelta() | SessionSnapshot() if held:
                pass
            case StepFinished():
                self._is_cut = event.stop_reason == "length"
            case TextDelta():
                self._write(event.text, delta)
            case ReasoningDelta():
                delta.reasoning += event.text
            case ToolStarted():
                self._texts += [""] if self._texts[-1] else []
            case ModelRetrying():
                self._texts[-1] = ""
            case SessionSnapshot():
                self._complete(event.text, delta)  # this reader was too slow: some text is missing
            case TurnCompleted():
                self._complete(event.final_response, delta)
            case SessionTrouble() if not self.turn_id:
                raise AnswerFailed(fault(Retryable, 503, event.error))

    def _write(self, text: str, delta: AnswerDelta) -> None:
        opens = bool(text) and not self._texts[-1] and any(self._texts)
        self._texts[-1] += text
        delta.text += (BETWEEN_STEPS if opens else "") + text

    def _complete(self, text: str, delta: AnswerDelta) -> None:
        """Write what is missing of a step's text."""
        if text.startswith(self._texts[-1]):
            self._write(text[len(self._texts[-1]) :], delta)

    def _require_answer(self, handle: TurnHandle) -> None:
        kept = f"What it had produced is kept in session {self.session_id}."
        if handle.left_nothing:
            kept = "Nothing of this request was kept."
        match handle.end:
            case None:
                closing = "Holdfast is shutting down; the message is kept."
                raise AnswerFailed(fault(Retryable, 503, closing))
            case TurnInterrupted(reason=reason):
                stopped = f"the turn was interrupted: {reason}. {kept}"
                raise AnswerFailed(fault(TurnStopped, 409, stopped))
            case TurnFailed() as failed:
                kind, text = turn_error(failed).kind, sentences(failed.error, kept)
                raise AnswerFailed(fault(kind, status_of(kind)[0], text, retry_after=failed.retry_after))
