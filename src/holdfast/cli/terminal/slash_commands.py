"""The slash commands of a chat: each parses its argument, makes one call and shows the result."""

from collections.abc import Awaitable, Callable

from holdfast.cli.logs import log_file
from holdfast.cli.output import write_lines
from holdfast.cli.session_lookup import find_in_list, find_on_host, listed_line, lives_in
from holdfast.cli.terminal.chat import Chat
from holdfast.core.clean_text import clean, one_line
from holdfast.core.errors import InvalidInput
from holdfast.core.events import ApprovalAsked
from holdfast.core.messages import text_of
from holdfast.sessions.contract import MODES, StoredMessage
from holdfast.sessions.conversation_list import ListedConversation
from holdfast.tools.open_questions import parse_approval
from holdfast.wiring import log_folder

ABOUT: dict[str, str] = {
    "help": "this list",
    "new": "begin a new conversation; this one is kept",
    "clear": "end this conversation and begin an empty one",
    "resume": "go on with another conversation: /resume [NUMBER or ID]",
    "sessions": "list conversations",
    "search": "search all conversations: /search WORDS",
    "undo": "go on as if you had not sent your last message",
    "retry": "send your last message again",
    "branch": "go on in a copy of this conversation",
    "compact": "summarise the conversation now: /compact [WHAT TO KEEP]",
    "memory": "the state of memory",
    "model": "which model answers; /model NAME changes it, /model list names others",
    "tools": "what the agent can do",
    "approve": "answer what is asked: /approve [no, or always [PATTERN]]",
    "mode": "what a message does while a turn runs: queue, steer, interrupt",
    "export": "write the conversation to a file: /export FILE",
    "status": "the state of everything",
    "quit": "leave",
}
SHOWN = 15
APPROVAL: dict[str, str] = {
    "ask": "ask (you are asked about what no rule allows)",
    "never-ask": "never-ask (all but Holdfast's own files is used and run unasked)",
    "always-refuse": "always-refuse (what no rule allows is refused)",
}


class SlashCommands:
    """Runs what begins with a slash."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._listed: list[ListedConversation] = []
        self._runs: dict[str, Callable[[str], Awaitable[None]]] = {
            name: getattr(self, f"_{name}") for name in ABOUT
        }

    def is_command(self, text: str) -> bool:
        """A path such as /etc/hosts is a message, not a command."""
        word = text.strip().split(maxsplit=1)[0] if text.strip() else ""
        return word.startswith("/") and word[1:].isalpha() and "\n" not in text.strip()

    async def run(self, text: str) -> None:
        word, _, argument = text.strip().partition(" ")
        known = [name for name in ABOUT if name.startswith(word[1:].lower())]
        exact = word[1:].lower()
        name = exact if exact in ABOUT else known[0] if len(known) == 1 else ""
        if not name:
            raise InvalidInput(f"there is no command {word}; /help lists them")
        await self._runs[name](argument.strip())

    def _say(self, *lines: str, style: str = "") -> None:
        for line in lines:
            self._chat.view.note(line, style)

    def _here(self) -> str:
        if self._chat.session_id is None:
            raise InvalidInput("nothing was said yet")
        return self._chat.session_id

    def _idle(self) -> str:
        if self._chat.view.is_busy:
            raise InvalidInput("a turn runs; interrupt it first (Ctrl-C)")
        return self._here()

    async def _help(self, _: str) -> None:
        width = self._chat.screen.width - 1
        for name, about in ABOUT.items():
            self._say(one_line(f"/{name:<9} {about}", width, squeeze=False))
        self._say(one_line("Alt-Enter or \\ at the end: new line · Tab: paths · Ctrl-C: interrupt", width))

    async def _new(self, _: str) -> None:
        await self._chat.begin()
        self._say("A new conversation. The one before is kept.", style="dim")

    async def _clear(self, _: str) -> None:
        fresh = await self._chat.host.clear(self._idle())
        await self._chat.attach(fresh)
        self._say("The conversation is ended; its messages are kept.", style="dim")

    async def _resume(self, wanted: str) -> None:
        if not wanted:
            await self._sessions("")
            self._say("/resume NUMBER goes on with one of them.", style="dim")
            return
        host = self._chat.host
        session_id = find_in_list(wanted, self._listed) if self._listed else await find_on_host(host, wanted)
        await self._chat.attach(session_id)
        self.show_end(await self._chat.host.records.messages(session_id))

    def show_end(self, stored: list[StoredMessage]) -> None:
        """Print the last turn of a conversation."""
        said = [each.message for each in stored if each.message["role"] in ("user", "assistant")]
        start = max((n for n, message in enumerate(said) if message["role"] == "user"), default=0)
        if start:
            self._say(f"… {start} earlier messages", style="dim")
        for message in said[start:]:
            text = text_of(message)
            if message["role"] == "user":
                self._chat.view.print_user_message(text)
            elif text:
                self._say(clean(text))
        self._say("")

    async def _sessions(self, _: str) -> None:
        self._listed = await self._chat.host.records.sessions(api=False, limit=SHOWN)
        if not self._listed:
            self._say("There are no conversations yet.")
        places = await self._chat.host.chats.places(each.root_id for each in self._listed)
        width = self._chat.screen.width - 1
        for number, each in enumerate(self._listed, start=1):
            self._say(listed_line(number, each, width, lives_in(places.get(each.root_id, ()))))

    async def _search(self, words: str) -> None:
        if not words:
            raise InvalidInput("/search needs words to look for")
        hits = await self._chat.host.records.search(words, limit=SHOWN)
        width = self._chat.screen.width - 1
        for hit in hits:
            found = "".join(part.text for part in hit.snippet)
            self._say(one_line(f"…{hit.session_id[-8:]} {hit.role}: {found}", width))
        self._say(f"{len(hits)} found" if hits else "Nothing was found.", style="dim")

    async def _undo(self, _: str) -> None:
        session_id = self._idle()
        last = await self._last_said(session_id)
        await self._chat.attach(await self._chat.host.truncate(session_id, before=last.seq))
        self._say(f"Taken back: {one_line(text_of(last.message), 60)}", style="dim")

    async def _last_said(self, session_id: str) -> StoredMessage:
        stored = await self._chat.host.records.messages(session_id)
        last = next((each for each in reversed(stored) if each.message["role"] == "user"), None)
        if last is None:
            raise InvalidInput("there is no message to go back to in this conversation")
        return last

    async def _retry(self, _: str) -> None:
        session_id = self._idle()
        if await self._chat.host.unfinished(session_id) is not None:
            await self._chat.host.retry(session_id)
            return
        last = await self._last_said(session_id)
        branch = await self._chat.host.truncate(session_id, before=last.seq)
        # Attached before it is sent, so that nothing of the answer is missed.
        await self._chat.attach(branch)
        await self._chat.host.send(branch, last.message)

    async def _branch(self, _: str) -> None:
        branch = await self._chat.host.records.branch(self._here())
        await self._chat.attach(branch)
        self._say(f"This goes on in a copy, …{branch[-8:]}; the original is kept.", style="dim")

    async def _compact(self, focus: str) -> None:
        session_id = self._idle()
        self._say("Compacting…", style="dim")
        self._chat.start(self._compact_now(session_id, focus))

    async def _compact_now(self, session_id: str, focus: str) -> None:
        after = await self._chat.host.compact(session_id, focus)
        if self._chat.session_id == session_id:
            self._chat.session_id = after
            await self._chat.measure()

    async def _memory(self, _: str) -> None:
        status = (await self._chat.host.status()).memory
        if not status:
            self._say("No memory provider is used.")
        for each in status:
            state = "down, tried again" if each.circuit == "open" else "working"
            error = f"; last error: {each.last_error}" if each.last_error else ""
            aside = f", {each.set_aside} set aside (holdfast memory set-aside)" if each.set_aside else ""
            self._say(f"{each.provider}: {state}, {each.owed} turns owed{aside}{error}")

    async def _model(self, wanted: str) -> None:
        if wanted == "list":
            await self._list_models()
            return
        if wanted:
            await self._switch_model(wanted)
            return
        model = self._chat.host.model
        if model is None:
            self._say("The model is not known.")
            return
        self._say(f"{model.name}, {model.context_window:,} tokens", *([model.notice] if model.notice else []))
        self._say("/model NAME changes it here, `holdfast model set` for the next start.", style="dim")

    async def _switch_model(self, wanted: str) -> None:
        chat = self._chat
        model = await chat.host.switch_model(wanted)
        chat.info.model, chat.info.window, chat.view.window = model.name, model.context_window, 0
        await chat.measure()
        when = "after this turn" if chat.view.is_busy else "from now on"
        self._say(f"{model.name} answers {when}, in this program only.")
        self._say(*([model.notice] if model.notice else []), style="yellow")

    async def _list_models(self) -> None:
        found = await self._chat.host.models()
        self._say(*found.names or [f"No models are listed ({found.where})."])

    async def _tools(self, _: str) -> None:
        if self._chat.host.model is not None and not self._chat.host.model.calls_tools:
            self._say("This model calls no tools. Others have these:", style="yellow")
        width = self._chat.screen.width - 1
        for name, about in self._chat.host.tools:
            self._say(one_line(f"{name:<16} {about}", width, squeeze=False))

    async def _approve(self, word: str) -> None:
        asked = self._chat.view.ask
        if not isinstance(asked, ApprovalAsked):
            raise InvalidInput("nothing waits for approval")
        if parse_approval(word or "yes") is None:
            raise InvalidInput(f"an approval is answered by yes, no or always, not {word!r}")
        await self._chat.host.approve(self._here(), asked.ask_id, word or "yes")

    async def _mode(self, wanted: str) -> None:
        if wanted:
            fitting = next((mode for mode in MODES if mode == wanted), None)
            if fitting is None:
                raise InvalidInput(f"the mode is one of {', '.join(MODES)}, not {wanted!r}")
            self._chat.mode = fitting
        meaning = {
            "queue": "waits for its end",
            "steer": "joins it at its next step",
            "interrupt": "stops it and runs next",
        }
        self._say(f"mode {self._chat.mode}: a message sent while a turn runs {meaning[self._chat.mode]}")

    async def _export(self, target: str) -> None:
        if not target:
            raise InvalidInput("/export needs a file to write")
        lines = await self._chat.host.records.export(self._here())
        self._say(f"written to {write_lines(target, lines)}")

    async def _status(self, _: str) -> None:
        status = await self._chat.host.status()
        if self._chat.session_id is not None:
            session = await self._chat.host.overview.session_status(self._chat.session_id)
            self._say(f"conversation {session.session_id}: {session.state}, {session.waiting} waiting")
            if session.trouble:
                self._say(f"it can't go on: {session.trouble}")
        self._say(f"store: {status.store}")
        self._say(f"log: {log_file(log_folder())}")
        self._say(f"mode: {self._chat.mode}")
        self._say(f"workspace: {status.workspace}")
        self._say(f"approval: {APPROVAL[status.approval]}")
        self._say(f"sandbox: {status.sandbox}")
        await self._model("")
        await self._memory("")

    async def _quit(self, _: str) -> None:
        self._chat.leaving.request()
