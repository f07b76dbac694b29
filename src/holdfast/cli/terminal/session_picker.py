"""Choose a conversation in the whole window: type to search titles, first words and all that was said."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.formatted_text import AnyFormattedText, StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import BufferControl, FormattedTextControl, VSplit, Window

from holdfast.cli.session_lookup import day, named
from holdfast.cli.terminal.screen import Screen
from holdfast.core.clean_text import one_line
from holdfast.sessions.conversation_list import ListedConversation

BARS = 3
SEARCH_SECONDS = 0.15
"""How long a person stops typing before everything that was said is searched."""
Search = Callable[[str], Awaitable[dict[str, str]]]
"""Finds conversations by what was said: the id of each one's first session, and a piece of what was said."""


class SessionPicker:
    """The conversations that fit what is typed."""

    def __init__(self, screen: Screen, listed: Sequence[ListedConversation], search: Search) -> None:
        self._screen = screen
        self._listed = listed
        self._search = search
        self._found: dict[str, str] = {}
        self._at = 0
        self._searching: asyncio.Task[None] | None = None
        self.input = Buffer(multiline=False, on_text_changed=self._typed)

    def fitting(self) -> list[ListedConversation]:
        """The conversations that fit, those by title before those by what was said."""
        words = self.input.text.lower().split()
        by_name = [each for each in self._listed if all(word in _name(each).lower() for word in words)]
        named = {each.root_id for each in by_name}
        return [*by_name, *(e for e in self._listed if e.root_id in self._found and e.root_id not in named)]

    def move(self, step: int) -> None:
        self._at = min(max(0, self._at + step), max(0, len(self.fitting()) - 1))

    def chosen(self) -> str | None:
        fitting = self.fitting()
        return fitting[self._at].session.id if fitting else None

    @property
    def page(self) -> int:
        return max(1, self._screen.height - BARS)

    def lines(self) -> AnyFormattedText:
        fitting = self.fitting()
        first = max(0, self._at - self.page + 1)
        shown: StyleAndTextTuples = []
        width = self._screen.width - 1
        for number, each in enumerate(fitting[first : first + self.page], start=first):
            style = "class:you" if number == self._at else ""
            mark = "▸ " if number == self._at else "  "
            said = self._found.get(each.root_id, "")
            text = f"{mark}{day(each.last_active)}  {_name(each)}" + (f" · {said}" if said else "")
            shown += [(style, one_line(text, width, squeeze=False)), ("", "\n")]
        return shown or [("class:live", "  nothing fits")]

    def foot(self) -> AnyFormattedText:
        count = len(self.fitting())
        words = "conversation fits" if count == 1 else "conversations fit"
        text = f" {count} {words} · ↑ ↓ choose · Enter goes on with it · Esc closes"
        return [("class:live", one_line(text, self._screen.width - 1))]

    def close(self) -> None:
        if self._searching is not None:
            self._searching.cancel()

    def _typed(self, buffer: Buffer) -> None:
        self._at, self._found = 0, {}
        self.close()
        if buffer.text.strip():
            self._searching = asyncio.create_task(self._look(buffer.text), name="session search")

    async def _look(self, words: str) -> None:
        await asyncio.sleep(SEARCH_SECONDS)
        self._found = await self._search(words)
        self._screen.refresh()


def _name(each: ListedConversation) -> str:
    return " ".join(named(each).split())


async def pick_session(screen: Screen, listed: Sequence[ListedConversation], search: Search) -> str | None:
    """The id of the conversation that the person chooses; None when they choose none."""
    picker = SessionPicker(screen, listed, search)
    search_line = VSplit(
        [
            Window(FormattedTextControl([("class:ask", "search > ")]), width=9, height=1),
            Window(BufferControl(picker.input), height=1),
        ]
    )
    parts = [
        search_line,
        Window(height=1),
        Window(FormattedTextControl(picker.lines), wrap_lines=False),
        Window(FormattedTextControl(picker.foot), height=1),
    ]
    try:
        chosen = await screen.full_screen(parts, _keys(picker))
    finally:
        picker.close()
    return None if chosen is None else str(chosen)


def _keys(picker: SessionPicker) -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _choose(event: KeyPressEvent) -> None:
        event.app.exit(result=picker.chosen())

    @keys.add("escape")
    @keys.add("c-c")
    @keys.add("c-d")
    def _close(event: KeyPressEvent) -> None:
        event.app.exit(result=None)

    for key, step in {"up": -1, "c-p": -1, "down": 1, "c-n": 1}.items():
        keys.add(key)(lambda _, step=step: picker.move(step))
    for key, pages in {"pageup": -1, "pagedown": 1}.items():
        keys.add(key)(lambda _, pages=pages: picker.move(pages * picker.page))
    return keys
