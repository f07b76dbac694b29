"""The prompt, which stays while turns run, and its keys.

Enter sends, Alt-Enter begins a new line, Esc stops what runs, Ctrl-O opens what was folded. While something
is searched or completed, these keys belong to the search or the completion.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition, has_completions, is_searching, vi_insert_mode
from prompt_toolkit.formatted_text import AnyFormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import Output
from prompt_toolkit.search import stop_search

from holdfast.cli.terminal.screen import ESCAPE_SECONDS, FRAME_SECONDS
from holdfast.cli.terminal.theme import Look

LONG_PASTE = 4_000
"""A pasted text with more characters is shown as a placeholder."""
REMEMBERED = 2_000
"""Longer lines are not kept for the arrow keys."""


@dataclass(slots=True)
class PastedTexts:
    """Long pasted texts and their placeholders in the input."""

    texts: dict[str, str] = field(default_factory=dict)

    def stand_in(self, text: str) -> str:
        word = f"[pasted text {len(self.texts) + 1}: {len(text):,} characters]"
        self.texts[word] = text
        return word

    def put_back(self, text: str) -> str:
        for word, whole in self.texts.items():
            text = text.replace(word, whole)
        self.texts.clear()
        return text


class ShortHistory(FileHistory):
    """Keeps only short lines, and works without a file when the disk is full."""

    def store_string(self, string: str) -> None:
        if len(string) <= REMEMBERED:
            try:
                super().store_string(string)
            except OSError:
                return


@dataclass(frozen=True, slots=True)
class PromptActions:
    """What the keys call, and what gives the texts above and below the input."""

    submit: Callable[[str], None]
    interrupt: Callable[[Buffer], None]
    can_stop: Callable[[], bool]
    stop: Callable[[], None]
    open_folds: Callable[[], None]
    leave: Callable[[], None]
    above: Callable[[], AnyFormattedText]
    below: Callable[[], AnyFormattedText]


def bindings(actions: PromptActions, pasted: PastedTexts) -> KeyBindings:
    keys = KeyBindings()
    _add_stopping_keys(keys, actions)

    @keys.add("enter", filter=~is_searching)
    def _send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None
            return
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
            return
        text = buffer.text
        buffer.reset(append_to_history=bool(text.strip()))
        event.app.vi_state.input_mode = InputMode.INSERT  # as in a shell
        if text.strip():
            actions.submit(pasted.put_back(text))

    @keys.add("escape", "enter", filter=~is_searching)
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    @keys.add("c-o", filter=~is_searching)
    def _open_folds(_: KeyPressEvent) -> None:
        actions.open_folds()

    @keys.add("c-d", filter=~is_searching)
    def _end(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.delete()
        else:
            actions.leave()

    @keys.add(Keys.BracketedPaste)
    def _paste(event: KeyPressEvent) -> None:
        text = event.data.replace("\r\n", "\n").replace("\r", "\n")
        event.current_buffer.insert_text(pasted.stand_in(text) if len(text) > LONG_PASTE else text)

    return keys


def _add_stopping_keys(keys: KeyBindings, actions: PromptActions) -> None:
    @keys.add("c-c")
    @keys.add("<sigint>")
    def _interrupt(event: KeyPressEvent) -> None:
        if is_searching():
            stop_search()
            return
        actions.interrupt(event.current_buffer)

    @keys.add("escape", filter=has_completions & ~vi_insert_mode & ~is_searching)
    def _close_menu(event: KeyPressEvent) -> None:
        event.current_buffer.cancel_completion()

    stops = Condition(actions.can_stop)

    @keys.add("escape", filter=stops & ~vi_insert_mode & ~is_searching & ~has_completions)
    def _stop(_: KeyPressEvent) -> None:
        actions.stop()


@dataclass(frozen=True, slots=True)
class PromptLook:
    """How the prompt looks, and which keys it has."""

    look: Look
    vi_keys: bool


def make_prompt(
    actions: PromptActions, completer: Completer, history: Path | None, output: Output, style: PromptLook
) -> PromptSession[str]:
    """The prompt; it returns no text, `actions.submit` gets each line."""
    kept: History = ShortHistory(str(history)) if history else InMemoryHistory()
    session: PromptSession[str] = PromptSession(
        actions.above,
        multiline=True,
        completer=completer,
        complete_while_typing=Condition(lambda: session.default_buffer.text.startswith("/")),
        history=kept,
        key_bindings=bindings(actions, PastedTexts()),
        bottom_toolbar=actions.below,
        prompt_continuation="  ",
        erase_when_done=True,
        enable_suspend=True,
        reserve_space_for_menu=4,
        style=style.look.prompt,
        color_depth=style.look.depth,
        editing_mode=EditingMode.VI if style.vi_keys else EditingMode.EMACS,
        output=output,
    )
    # However fast an answer comes, the prompt is drawn as often as an eye can follow.
    session.app.min_redraw_interval = FRAME_SECONDS
    session.app.timeoutlen = session.app.ttimeoutlen = ESCAPE_SECONDS
    return session
