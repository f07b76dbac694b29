"""The slash commands about the agent's work: taking it back, what changed in files, its cost, its tools."""

from collections.abc import Iterable
from decimal import Decimal
from itertools import islice

from rich.text import Text

from holdfast.cli.terminal.chat import Chat
from holdfast.cli.terminal.diff_text import body_lines, coloured
from holdfast.cli.terminal.folds import hidden_lines
from holdfast.core.clean_text import clean, one_line
from holdfast.core.errors import InvalidInput
from holdfast.core.messages import text_of
from holdfast.host import SessionHost
from holdfast.host.usage_reports import UsageTotal
from holdfast.sessions.contract import StoredMessage
from holdfast.tools.file_diff import FileDiff

FILES = "files"
PROFILE = "profile"
UNDO = {"m": "message", "f": FILES, "l": "leave"}
NO_CHANGES = "No change of a file is on record; of commands, only the files that they name are covered."
MOST_DIFF_LINES = 200
"""Lines of a diff that are printed; of a longer one the key that opens it shows the rest."""


async def last_said(host: SessionHost, session_id: str) -> StoredMessage:
    """The last message of the person in a conversation."""
    stored = await host.records.messages(session_id)
    last = next((each for each in reversed(stored) if each.message["role"] == "user"), None)
    if last is None:
        raise InvalidInput("there is no message to go back to in this conversation")
    return last


class WorkCommands:
    """Each method is the command of its name."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat

    async def undo(self, argument: str) -> None:
        if argument not in ("", FILES):
            raise InvalidInput(f"/undo takes back your last message, /undo {FILES} what it did to files, too")
        session_id = self._chat.idle()
        first = await self._chat.host.records.undone_from(session_id)
        changed = await self._changed(session_id, first.turn_id) if first.turn_id else []
        meant = [each for each in changed if not each.undone]
        if argument == FILES or not meant:
            await self._take_back(session_id, files=argument == FILES)
            return
        self._chat.say(f"“{one_line(text_of(first.message), 60)}” changed files:", style="warning")
        self._list(meant)
        self._chat.start(self._ask_what_to_undo(session_id))

    async def _ask_what_to_undo(self, session_id: str) -> None:
        mark = "take back the [m]essage alone, it and the [f]iles, or [l]eave it"
        chosen = await self._chat.choose(mark, UNDO)
        if chosen != "leave":
            await self._take_back(session_id, files=chosen == FILES)
        self._chat.screen.print()

    async def _take_back(self, session_id: str, *, files: bool) -> None:
        undone = await self._chat.host.undo(session_id, files=files)
        await self._chat.attach(undone.session_id)
        self._chat.say(f"Taken back: {one_line(undone.text, 60)}", style="quiet")
        for each in undone.files:
            self._chat.say(f"  {each.outcome} {each.path}{f': {each.reason}' if each.reason else ''}")

    async def diff(self, argument: str) -> None:
        if argument not in ("", "all"):
            raise InvalidInput("/diff shows what the last turn did to files, /diff all the conversation")
        session_id = self._chat.here()
        turn_id = None if argument else (await self._chat.host.records.undone_from(session_id)).turn_id
        changed = await self._changed(session_id, turn_id)
        for each in changed:
            self._show(each)
        if not changed:
            self._chat.say(NO_CHANGES, style="quiet")

    async def changes(self, _: str) -> None:
        changed = await self._changed(self._chat.here())
        self._list(changed)
        end = "/diff all shows them" if changed else NO_CHANGES
        self._chat.say(end, style="quiet")

    async def cost(self, _: str) -> None:
        usage = self._chat.host.usage
        today = (await usage.report(days=1)).total
        if self._chat.session_id is not None:
            last = await self._last_turn(self._chat.session_id)
            if last is not None:
                self._chat.say(f"the last turn: {_used(last)}")
            self._chat.say(f"this conversation: {_used(await usage.conversation(self._chat.session_id))}")
        self._chat.say(f"today: {_used(today)}", "`holdfast usage` shows other days and models")
        model = self._chat.host.model
        if model is not None and model.prices.as_of:
            prices = f"the prices of {model.name} are those of Holdfast's own table, of {model.prices.as_of}"
            self._chat.say(prices, style="quiet")

    async def _last_turn(self, session_id: str) -> UsageTotal | None:
        """What the last turn that has ended used; the newest may still run."""
        stored = await self._chat.host.records.messages(session_id)
        turns = dict.fromkeys(each.turn_id for each in reversed(stored) if each.turn_id)
        for turn_id in islice(turns, 2):
            used = await self._chat.host.usage.turn(turn_id)
            if used.requests:
                return used
        return None

    async def tools(self, argument: str) -> None:
        host = self._chat.host
        word, _, name = argument.partition(" ")
        if word == PROFILE:
            await self._profile(name.strip())
            return
        if argument:
            raise InvalidInput(f"/tools lists them, /tools {PROFILE} NAME chooses which the model is told of")
        if host.model is not None and not host.model.calls_tools:
            self._chat.say("This model calls no tools. Others have these:", style="warning")
        width = self._chat.screen.width - 1
        for name, about in host.tools:
            self._chat.say(one_line(f"{name:<16} {about}", width, squeeze=False))

    async def _profile(self, name: str) -> None:
        """Show or choose which tools the model is told of in this conversation."""
        host = self._chat.host
        if name:
            session_id = self._chat.session_id or await self._chat.begin()
            profile = await host.set_tool_profile(session_id, "" if name == "auto" else name)
        else:
            profile = await host.overview.tool_profile(self._chat.session_id)
        others = ", ".join(host.overview.tool_profiles)
        self._chat.say(f"tools: profile {profile}; there are {others}, and auto for what fits the model")

    async def _changed(self, session_id: str, turn_id: str | None = None) -> list[FileDiff]:
        return await self._chat.host.files.changes(session_id, turn_id)

    def _list(self, changed: Iterable[FileDiff]) -> None:
        for each in changed:
            self._chat.say(f"  {each.kind} {each.path} +{each.added} -{each.removed}{_state(each)}")

    def _show(self, each: FileDiff) -> None:
        self._chat.say(
            f"{each.kind} {each.path} +{each.added} -{each.removed}{_state(each)}", style="heading"
        )
        if not each.diff:
            self._chat.say(f"  {each.note}", style="quiet")
            return
        lines = body_lines(clean(each.diff))
        self._chat.view.folds.keep(f"changes {each.path}", "\n".join(lines))
        for line in lines[:MOST_DIFF_LINES]:
            self._chat.screen.print(Text.assemble("  ", coloured(line)))
        if len(lines) > MOST_DIFF_LINES:
            self._chat.say(f"  {hidden_lines(len(lines) - MOST_DIFF_LINES)}", style="quiet")


def _state(each: FileDiff) -> str:
    if each.undone:
        return " (taken back)"
    return f" (can't be taken back: {each.problem})" if each.problem else ""


def _used(total: UsageTotal) -> str:
    if total.requests and not total.input_tokens + total.output_tokens:
        return "the model reports no tokens"
    tokens = f"{total.input_tokens:,} tokens in, {total.output_tokens:,} out"
    if total.cost is not None:
        return f"${Decimal(total.cost):.4f} ({tokens})"
    if Decimal(total.known_cost):
        return f"at least ${Decimal(total.known_cost):.4f} ({tokens}; a part has no known price)"
    return f"{tokens}; no price is known for this model"
