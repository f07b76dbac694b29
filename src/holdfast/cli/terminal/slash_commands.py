"""The slash commands of a chat: each parses its argument, makes one call and shows the result."""

from collections.abc import Awaitable, Callable
from typing import get_args

from holdfast.cli.logs import log_file
from holdfast.cli.output import write_lines
from holdfast.cli.session_lookup import day, find_on_host, listed_line, lives_in, named
from holdfast.cli.terminal.chat import Chat
from holdfast.cli.terminal.command_names import ABOUT
from holdfast.cli.terminal.last_turn import show_last_turn
from holdfast.cli.terminal.theme import look_of
from holdfast.cli.terminal.work_commands import PROFILE, WorkCommands, last_said
from holdfast.core.clean_text import one_line
from holdfast.core.errors import InvalidInput
from holdfast.core.events import ApprovalAsked
from holdfast.core.terminal_settings import KeyStyle, ThemeName
from holdfast.memory.contract import ONLY_HERE
from holdfast.sessions import Filters
from holdfast.sessions.contract import API_SOURCE, MODES
from holdfast.sessions.conversation_list import ListedConversation
from holdfast.sessions.markdown_export import is_markdown
from holdfast.tools.open_questions import parse_approval
from holdfast.wiring import environment, log_folder

SHOWN = 15
PICKED_FROM = 500
SPEAKERS = {"user": "you"}
BY_PEOPLE = Filters(not_source=API_SOURCE)
"""Not in what clients of the API asked without naming a conversation."""
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
        work = WorkCommands(chat)
        self._runs: dict[str, Callable[[str], Awaitable[None]]] = {
            name: getattr(work, name, None) or getattr(self, f"_{name}") for name in ABOUT
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

    async def _help(self, _: str) -> None:
        width = self._chat.screen.width - 1
        for name, about in ABOUT.items():
            self._chat.say(one_line(f"/{name:<9} {about}", width, squeeze=False))
        self._chat.say("!COMMAND   runs a command of your own and offers its output to the conversation")
        keys = (
            "Alt-Enter or \\ at the end: new line · Tab: paths · Esc or Ctrl-C: interrupt",
            "Ctrl-O: open what is folded · Ctrl-R: search what you typed before",
        )
        self._chat.say(*(one_line(line, width) for line in keys), style="quiet")

    async def _new(self, _: str) -> None:
        await self._chat.begin()
        self._chat.say("A new conversation. The one before is kept.", style="quiet")

    async def _clear(self, _: str) -> None:
        fresh = await self._chat.host.commands.clear(self._chat.idle())
        await self._chat.attach(fresh)
        self._chat.say("The conversation is ended; its messages are kept.", style="quiet")

    async def _resume(self, wanted: str) -> None:
        host = self._chat.host
        if not wanted:
            session_id = await self._picked()
        elif wanted.isdecimal() and 1 <= int(wanted) <= len(self._listed):
            # What was shown may have changed its place since, and may be archived.
            session_id = self._listed[int(wanted) - 1].session.id
        else:
            session_id = await find_on_host(host, wanted)
        if session_id is None:
            self._chat.say("This conversation goes on.", style="quiet")
            return
        await self._chat.attach(session_id)
        await show_last_turn(self._chat, session_id)

    async def _picked(self) -> str | None:
        """The conversation that the person chooses from all."""
        from holdfast.cli.terminal.session_picker import pick_session

        listed = await self._chat.host.records.sessions(api=False, limit=PICKED_FROM)
        if not listed:
            raise InvalidInput("there are no conversations yet")
        return await pick_session(self._chat.screen, listed, self._said_in)

    async def _said_in(self, words: str) -> dict[str, str]:
        """The conversations in which words were said, with a piece of what was said."""
        records = self._chat.host.records
        found: dict[str, str] = {}
        for hit in await records.search(words, filters=BY_PEOPLE, limit=SHOWN):
            listed = await records.session(hit.session_id)
            found.setdefault(listed.root_id, "".join(part.text for part in hit.snippet))
        return found

    async def _sessions(self, _: str) -> None:
        self._listed = await self._chat.host.records.sessions(api=False, limit=SHOWN)
        if not self._listed:
            self._chat.say("There are no conversations yet.")
        places = await self._chat.host.chats.places(each.root_id for each in self._listed)
        width = self._chat.screen.width - 1
        for number, each in enumerate(self._listed, start=1):
            self._chat.say(listed_line(number, each, width, lives_in(places.get(each.root_id, ()))))

    async def _search(self, words: str) -> None:
        if not words:
            raise InvalidInput("/search needs words to look for")
        records = self._chat.host.records
        found: dict[str, list[str]] = {}
        listed: dict[str, ListedConversation] = {}
        hits = await records.search(words, filters=BY_PEOPLE, limit=SHOWN)
        for hit in hits:
            each = await records.session(hit.session_id)
            listed.setdefault(each.root_id, each)
            said = "".join(part.text for part in hit.snippet)
            found.setdefault(each.root_id, []).append(f"{SPEAKERS.get(hit.role, hit.role)}: {said}")
        if not hits:
            self._chat.say("Nothing was found.", style="quiet")
            return
        self._listed = list(listed.values())
        width = self._chat.screen.width - 1
        for number, each in enumerate(self._listed, start=1):
            head = one_line(f"{number:>3}  {day(each.last_active)}  {named(each)}", width, squeeze=False)
            self._chat.say(head, style="strong")
            for line in found[each.root_id]:
                self._chat.say(one_line(f"     {line}", width, squeeze=False))
        self._chat.say(f"{len(hits)} found; /resume NUMBER goes on with a conversation", style="quiet")

    async def _retry(self, _: str) -> None:
        session_id = self._chat.idle()
        if await self._chat.host.commands.unfinished(session_id) is not None:
            await self._chat.host.commands.retry(session_id)
            return
        last = await last_said(self._chat.host, session_id)
        branch = await self._chat.host.commands.truncate(session_id, before=last.seq)
        # Attached before it is sent, so that nothing of the answer is missed.
        await self._chat.attach(branch)
        await self._chat.host.send(branch, last.message)

    async def _branch(self, _: str) -> None:
        branch = await self._chat.host.records.branch(self._chat.here())
        await self._chat.attach(branch)
        self._chat.say(f"This goes on in a copy, …{branch[-8:]}; the original is kept.", style="quiet")

    async def _compact(self, focus: str) -> None:
        session_id = self._chat.idle()
        self._chat.say("Compacting…", style="quiet")
        self._chat.start(self._compact_now(session_id, focus))

    async def _compact_now(self, session_id: str, focus: str) -> None:
        after = await self._chat.host.commands.compact(session_id, focus)
        if self._chat.session_id == session_id:
            self._chat.session_id = after
            await self._chat.measure()

    async def _memory(self, _: str) -> None:
        status = (await self._chat.host.overview.status()).memory
        if not status:
            self._chat.say("No memory provider is used.")
        for each in status:
            state = "down, tried again" if each.circuit == "open" else "working"
            error = f"; last error: {each.last_error}" if each.last_error else ""
            aside = f", {each.set_aside} set aside (holdfast memory set-aside)" if each.set_aside else ""
            self._chat.say(f"{each.provider}: {state}, {each.owed} turns owed{aside}{error}")
            if each.only_here:
                self._chat.say(f"  {ONLY_HERE}")

    async def _model(self, wanted: str) -> None:
        if wanted == "list":
            await self._list_models()
            return
        if wanted:
            await self._switch_model(wanted)
            return
        model = self._chat.host.model
        if model is None:
            self._chat.say("The model is not known.")
            return
        self._chat.say(
            f"{model.name}, {model.context_window:,} tokens", *([model.notice] if model.notice else [])
        )
        self._chat.say("/model NAME changes it here, `holdfast model set` for the next start.", style="quiet")

    async def _switch_model(self, wanted: str) -> None:
        chat = self._chat
        model = await chat.host.switch_model(wanted)
        chat.info.model, chat.info.window, chat.view.window = model.name, model.context_window, 0
        await chat.measure()
        when = "after this turn" if chat.view.is_busy else "from now on"
        self._chat.say(f"{model.name} answers {when}, in this program only.")
        self._chat.say(*([model.notice] if model.notice else []), style="warning")

    async def _list_models(self) -> None:
        found = await self._chat.host.models()
        self._chat.say(*found.names or [f"No models are listed ({found.where})."])

    async def _approve(self, word: str) -> None:
        asked = self._chat.view.ask
        if not isinstance(asked, ApprovalAsked):
            raise InvalidInput("nothing waits for approval")
        if parse_approval(word or "yes") is None:
            raise InvalidInput(f"an approval is answered by yes, no or always, not {word!r}")
        await self._chat.host.approve(self._chat.here(), asked.ask_id, word or "yes")

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
        self._chat.say(f"mode {self._chat.mode}: a message sent while a turn runs {meaning[self._chat.mode]}")

    async def _export(self, target: str) -> None:
        if not target:
            raise InvalidInput("/export needs a file to write")
        as_markdown = is_markdown(target)
        lines = await self._chat.host.records.export(self._chat.here(), as_markdown=as_markdown)
        self._chat.say(f"written to {write_lines(target, lines)}")

    async def _rename(self, title: str) -> None:
        if not title:
            raise InvalidInput("/rename needs a title")
        await self._chat.host.records.rename(self._chat.here(), title)
        self._chat.say(f"This conversation is called {title!r} from now on.", style="quiet")

    async def _theme(self, wanted: str) -> None:
        chat = self._chat
        if wanted:
            name = next((each for each in get_args(ThemeName) if each == wanted), None)
            if name is None:
                raise InvalidInput(f"the theme is one of {', '.join(get_args(ThemeName))}, not {wanted!r}")
            chat.set_look(look_of(name, environment()))
        chat.say(f"theme {chat.screen.look.name}; `holdfast config set terminal.theme NAME` keeps one")

    async def _keys(self, wanted: str) -> None:
        chat = self._chat
        if wanted:
            if wanted not in get_args(KeyStyle):
                raise InvalidInput(f"the keys are those of {' or '.join(get_args(KeyStyle))}, not {wanted!r}")
            chat.set_keys(vi=wanted == "vi")
        chat.say("`holdfast config set terminal.keys vi` keeps them" if not wanted else f"keys of {wanted}")

    async def _status(self, _: str) -> None:
        status = await self._chat.host.overview.status()
        if self._chat.session_id is not None:
            session = await self._chat.host.overview.session_status(self._chat.session_id)
            self._chat.say(f"conversation {session.session_id}: {session.state}, {session.waiting} waiting")
            if session.trouble:
                self._chat.say(f"it can't go on: {session.trouble}")
        self._chat.say(f"store: {status.store}")
        self._chat.say(f"log: {log_file(log_folder())}")
        self._chat.say(f"mode: {self._chat.mode}")
        self._chat.say(f"workspace: {status.workspace}")
        self._chat.say(f"approval: {APPROVAL[status.approval]}")
        self._chat.say(f"sandbox: {status.sandbox}")
        await self._model("")
        await self._runs["tools"](PROFILE)
        await self._memory("")

    async def _quit(self, _: str) -> None:
        self._chat.leave()
