"""The commands of a chat (/new, /stop, …): each makes one call on the host and says what came of it."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from holdfast.core.errors import HoldfastError, InvalidInput
from holdfast.gateway.contract import Command
from holdfast.host import SessionHost
from holdfast.host.chat_ledger import ChatLedger
from holdfast.sessions.chat_events import ChatEvent, ChatRoom
from holdfast.sessions.chat_people import Role
from holdfast.sessions.contract import ConversationChoice, StoredMessage
from holdfast.tools.open_questions import parse_approval

logger = logging.getLogger(__name__)

COMMANDS: tuple[Command, ...] = (
    Command("help", "what I understand"),
    Command("new", "begin a new conversation; this one is kept"),
    Command("stop", "stop what I am doing"),
    Command("retry", "answer your last message again"),
    Command("undo", "take your last message back; with `files`, also what it did to files"),
    Command("status", "how this conversation stands"),
    Command("model", "which model answers here; /model NAME changes it, /model list names others"),
    Command("compact", "summarise the conversation now"),
    Command("resume", "go on with an earlier conversation of this chat: /resume NUMBER"),
    Command("approve", "allow what I asked for; /approve always"),
    Command("deny", "refuse what I asked for"),
    Command("usage", "how much of the model's window this conversation uses"),
)
NAMES = frozenset(each.name for each in COMMANDS)
FOR_GUESTS = ("help", "new", "stop", "status")
FILES = "files"
LIST, USUAL = "list", "usual"
NOTHING_SAID = "Nothing was said here yet."
SHOWN = 10
MODELS_SHOWN = 30


def command_of(text: str) -> tuple[str, str] | None:
    """The name and the argument of a command; None for another text, such as a path."""
    word, _, argument = text.strip().partition(" ")
    # Telegram adds the bot's name in groups: /new@my_bot.
    name = word[1:].partition("@")[0].lower()
    if not name.isalpha() or "\n" in text.strip():
        return None
    # Some clients keep words with a slash for themselves, so that "!new" is the same.
    is_command = word.startswith("/") or (word.startswith("!") and name in NAMES)
    return (name, argument.strip()) if is_command else None


@dataclass(frozen=True, slots=True)
class ChatCommand:
    """A command as it was given."""

    event: ChatEvent
    room: ChatRoom
    role: Role
    scope: str
    """For whom it is given."""
    name: str
    argument: str


class ChatCommands:
    """Runs the commands of one account."""

    def __init__(self, host: SessionHost, ledger: ChatLedger, user_models: Sequence[str]) -> None:
        self._host = host
        self._ledger = ledger
        self._user_models = user_models
        self._runs: dict[str, Callable[[ChatCommand], Awaitable[str]]] = {
            each.name: getattr(self, f"_{each.name}") for each in COMMANDS
        }

    async def run(self, command: ChatCommand) -> str:
        """Run it; returns what the chat is told."""
        run = self._runs.get(command.name)
        if run is None:
            return f"I don't know /{command.name}. /help lists what I understand."
        if command.role == "guest" and command.name not in FOR_GUESTS:
            return f"/{command.name} is not for guests."
        try:
            return await run(command)
        except HoldfastError as error:
            return f"/{command.name}: {error}"

    async def _help(self, command: ChatCommand) -> str:
        listed = [each for each in COMMANDS if command.role != "guest" or each.name in FOR_GUESTS]
        return "\n".join(f"/{each.name}: {each.description}" for each in listed)

    async def _new(self, command: ChatCommand) -> str:
        await self._ledger.under_lease(self._ledger.events.assign, command.room.id, None)
        return "A new conversation begins with your next message. The one before is kept; /resume lists it."

    async def _stop(self, command: ChatCommand) -> str:
        stopped = await self._host.interrupt(_session(command.room))
        return "" if stopped else "Nothing runs here."

    async def _retry(self, command: ChatCommand) -> str:
        session_id = _session(command.room)
        last = await self._last_said(session_id)
        branch = await self._host.commands.truncate(session_id, before=last.seq, key=command.event.key)
        await self._ledger.under_lease(self._ledger.events.assign, command.room.id, branch)
        # With the key of this event, so that the answer comes back to this chat.
        await self._host.send(branch, last.message, key=command.event.key)
        return ""

    async def _undo(self, command: ChatCommand) -> str:
        undone = await self._host.undo(
            _session(command.room), files=command.argument == FILES, key=command.event.key
        )
        await self._ledger.under_lease(self._ledger.events.assign, command.room.id, undone.session_id)
        lines = [f"{each.outcome} {each.path}: {each.reason}".rstrip(": ") for each in undone.files]
        return "\n".join([f"Taken back: {undone.text[:80]}", *lines])

    async def _last_said(self, session_id: str) -> StoredMessage:
        stored = await self._host.records.messages(session_id)
        last = next((each for each in reversed(stored) if each.message["role"] == "user"), None)
        if last is None:
            raise InvalidInput("there is no message to go back to")
        return last

    async def _status(self, command: ChatCommand) -> str:
        chosen = await self._chosen_model(command.room)
        lines = [f"Model: {chosen or self._usual_model()}"]
        if command.room.session_id is None:
            lines.append(NOTHING_SAID)
        else:
            status = await self._host.overview.session_status(command.room.session_id)
            lines.append(f"Conversation …{status.session_id[-8:]}: {status.state}, {status.waiting} waiting")
            if status.trouble:
                lines.append(f"It can't go on: {status.trouble}")
        lines.append(f"You talk to me as: {command.role}")
        return "\n".join(lines)

    async def _model(self, command: ChatCommand) -> str:
        if command.argument == LIST:
            return await self._list_models(command.role)
        if command.argument:
            return await self._choose_model(command, command.argument)
        chosen = await self._chosen_model(command.room)
        if chosen:
            return (
                f"{chosen} answers in this conversation; /model {USUAL} goes back to {self._usual_model()}."
            )
        return f"{self._usual_model()} answers here, as everywhere where nothing else was chosen."

    def _may_choose(self, role: Role, model: str) -> bool:
        return role == "owner" or not self._user_models or model in self._user_models

    async def _list_models(self, role: Role) -> str:
        found = await self._host.models()
        names = [each for each in found.names if self._may_choose(role, each)]
        if not names:
            return "I found no other models."
        more = len(names) - MODELS_SHOWN
        lines = [f"- `{name}`" for name in names[:MODELS_SHOWN]]
        lines += [f"- and {more} more"] if more > 0 else []
        return "\n".join([*lines, "", "/model NAME chooses one for this conversation."])

    async def _choose_model(self, command: ChatCommand, wanted: str) -> str:
        model = "" if wanted == USUAL else wanted
        if model and not self._may_choose(command.role, model):
            return f"Users may choose: {', '.join(self._user_models)}. Nothing was changed."
        if model and command.role != "owner":
            await self._host.choices.require_offered(model, self._user_models)
        await self._host.choices.checked(ConversationChoice(model))
        session_id = command.room.session_id
        if session_id is None:
            session_id = await self._host.new_session(key=command.event.key, scope=command.scope)
            await self._ledger.under_lease(self._ledger.events.assign, command.room.id, session_id)
        await self._host.choices.choose(session_id, model=model)
        return f"{model or self._usual_model()} answers in this conversation, from your next message on."

    async def _chosen_model(self, room: ChatRoom) -> str:
        """What was chosen for the conversation of a room; empty: the usual model."""
        if room.session_id is None:
            return ""
        return (await self._host.records.session(room.session_id)).choice.model

    def _usual_model(self) -> str:
        return self._host.model.name if self._host.model else "no model"

    async def _compact(self, command: ChatCommand) -> str:
        await self._host.commands.compact(_session(command.room), command.argument)
        return "The conversation is summarised; the whole of it stays on record."

    async def _resume(self, command: ChatCommand) -> str:
        found = await self._ledger(self._ledger.events.conversations, command.room.id)
        scopes = {each: await self._ledger(self._host.chats.scope_of, each) for each in found}
        earlier = [each for each in found if scopes[each] == command.scope]
        if not earlier:
            return NOTHING_SAID
        if not command.argument:
            lines = [f"{number}. {await self._title(each)}" for number, each in enumerate(earlier[:SHOWN], 1)]
            return "\n".join([*lines, "", "/resume NUMBER goes on with one of them."])
        if not command.argument.isdecimal() or not 1 <= int(command.argument) <= len(earlier):
            return f"/resume takes a number from 1 to {len(earlier)}."
        chosen = earlier[int(command.argument) - 1]
        await self._ledger.under_lease(self._ledger.events.assign, command.room.id, chosen)
        return f"We go on with: {await self._title(chosen)}"

    async def _title(self, session_id: str) -> str:
        return (
            await self._host.records.session(session_id)
        ).session.title or f"conversation …{session_id[-8:]}"

    async def _approve(self, command: ChatCommand) -> str:
        return await self._decide(command, command.argument or "yes")

    async def _deny(self, command: ChatCommand) -> str:
        return await self._decide(command, "no")

    async def _decide(self, command: ChatCommand, word: str) -> str:
        if parse_approval(word) is None:
            return f"An approval is answered by yes, no or always, not {word!r}."
        session_id = _session(command.room)
        asks = await self._host.overview.asks(session_id)
        if not asks:
            return "Nothing waits for your decision."
        counted = await self._host.answer(session_id, asks[0].ask_id, word, key=command.event.key)
        return "" if counted else "That question is closed already."

    async def _usage(self, command: ChatCommand) -> str:
        size = await self._host.overview.context_size(_session(command.room))
        used = await self._host.usage.conversation(_session(command.room))
        return (
            f"{size.tokens:,} of {size.window:,} tokens of the model's window are used.\n"
            f"So far: {used.input_tokens:,} tokens read, {used.output_tokens:,} written, "
            f"{'cost unknown' if used.cost is None else f'${used.cost}'}."
        )


def _session(room: ChatRoom) -> str:
    if room.session_id is None:
        raise InvalidInput(NOTHING_SAID)
    return room.session_id
