"""`Screen`: printed lines go to the scrollback and stay; lines that still change are part of the prompt.

Printing erases the prompt, writes, and draws the prompt again in one step, so a line is always in exactly one
of the two places. A view that fills the window (`full_screen`) holds up printing until it is closed.
"""

import asyncio
import io
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from prompt_toolkit.application import Application, get_app_or_none
from prompt_toolkit.application.run_in_terminal import in_terminal
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import AnyContainer, HSplit, Layout
from rich.console import Console, RenderableType
from rich.text import Text

from holdfast.cli.terminal.frame_output import FrameOutput
from holdfast.cli.terminal.reflow import left_above
from holdfast.cli.terminal.theme import Look

SMALLEST_WIDTH = 10
FRAME_SECONDS = 1 / 30
"""The prompt is drawn at most this often, however fast an answer comes."""
ESCAPE_SECONDS = 0.15
"""How long a lone Esc waits for a key that would make it another one, as Alt-Enter does."""


class Screen:
    """The terminal, for one conversation. Used on the loop's thread only."""

    def __init__(self, output: FrameOutput, look: Look, *, wraps_anew: bool = False) -> None:
        self.output = output
        self.look = look
        self._wraps_anew = wraps_anew
        self._drawn_width = 0
        self.above: list[str] = []
        """The lines that were last drawn at the prompt, down to the one with its mark."""
        self.on_rows_kept: Callable[[str], None] = lambda _: None
        """Called with the rows of these lines that a narrower window left in the scrollback."""
        self._pending: list[str] = []
        self._writing: asyncio.Task[None] | None = None
        self._cover: Application[Any] | None = None
        self._uncovered = asyncio.Event()
        self._uncovered.set()
        self.gone = False
        """The terminal was closed; printed lines are lost."""

    @property
    def width(self) -> int:
        return max(SMALLEST_WIDTH, self.output.get_size().columns)

    @property
    def height(self) -> int:
        return self.output.get_size().rows

    def console(self) -> Console:
        """A console that writes nowhere, as wide as the terminal is now."""
        return Console(
            file=io.StringIO(),
            width=self.width,
            force_terminal=True,
            highlight=False,
            markup=False,
            theme=self.look.styles,
            no_color=not self.look.has_colours,
        )

    def print(self, shown: RenderableType = "", style: str = "") -> None:
        """Put lines into the scrollback, above the prompt."""
        self._pending.append(self.rendered(Text(shown, style) if isinstance(shown, str) else shown))
        self._write_soon()

    def rendered(self, shown: RenderableType) -> str:
        """The text in rows as wide as the terminal is now, each with its line end."""
        console = self.console()
        with console.capture() as captured:
            console.print(shown)
        return captured.get()

    def rows(self, shown: RenderableType) -> list[str]:
        """The same as a list, without line ends."""
        return self.rendered(shown).removesuffix("\n").split("\n")

    def refresh(self) -> None:
        """What is shown at the prompt has changed."""
        app = get_app_or_none()
        if app is not None:
            app.invalidate()

    async def settle(self) -> None:
        """Wait until all that was printed is on the terminal."""
        while self._writing is not None:
            await asyncio.wait([self._writing])
        self._release()

    # a view that fills the window

    async def full_screen(self, parts: Sequence[AnyContainer], keys: KeyBindings) -> Any:  # noqa: ANN401
        """Show parts, one below another, in place of everything else until a key ends it.

        Returns what the key chose; None while another view is shown.
        """
        if self._cover is not None:
            return None
        view: Application[Any] = Application(
            layout=Layout(HSplit(parts)),
            key_bindings=keys,
            full_screen=True,
            style=self.look.prompt,
            color_depth=self.look.depth,
            output=self.output,
        )
        view.ttimeoutlen = view.timeoutlen = ESCAPE_SECONDS
        self._cover = view
        self._uncovered.clear()
        try:
            if self._writing is not None:
                await asyncio.wait([self._writing], timeout=FRAME_SECONDS)
            self._release()
            async with in_terminal():
                return await view.run_async()
        finally:
            self._cover = None
            self._uncovered.set()

    def uncover(self) -> None:
        """Close a view that fills the window."""
        if self._cover is not None and self._cover.is_running:
            self._cover.exit()

    # printing

    def _write_soon(self) -> None:
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all(), name="screen")
            self._writing.add_done_callback(self._written)

    async def _write_all(self) -> None:
        # Lines that come together are written together.
        await asyncio.sleep(0)
        while self._pending:
            await self._uncovered.wait()
            app = get_app_or_none()
            if app is None or not app.is_running:
                self._write()
                continue
            # A pending answer to a cursor request must arrive before the prompt moves.
            await app.renderer.wait_for_cpr_responses()
            if self._uncovered.is_set():
                self._write_above(app)

    def before_drawing(self, app: Application[Any]) -> None:
        """Detect a narrower window, in a terminal that wraps long rows."""
        before, self._drawn_width = self._drawn_width, self.width
        if not self._wraps_anew or self._drawn_width >= before or not self.above:
            return
        typed = app.current_buffer.document.text_before_cursor
        *lines, mark = self.above
        left = left_above(lines, mark + typed.replace("\n", "\n  "), before, self._drawn_width)
        if left:
            app.renderer.erase(leave_alternate_screen=False)
            self.on_rows_kept("".join(left))

    def drawn(self, _: Application[Any]) -> None:
        """The prompt was drawn, so what was written before it can be shown with it."""
        self._release()

    def _write_above(self, app: Application[Any]) -> None:
        """Take the prompt away, write, and draw it again.

        The keyboard mode stays: `run_in_terminal` would reset it for a moment, and a Ctrl-C in that moment
        would end the program instead of the turn.
        """
        self.before_drawing(app)
        self.output.hold()
        app.renderer.erase()
        self._write()
        app.renderer.reset()
        app.renderer.request_absolute_cursor_position()
        # It is drawn within `FRAME_SECONDS`; `drawn` then lets everything out at once.
        app.invalidate()

    def _write(self) -> None:
        text = "".join(self._pending).replace("\n", "\r\n")
        self._pending.clear()
        try:
            self.output.write_raw(text)
            self.output.flush()
        except OSError:
            self.gone = True

    def _release(self) -> None:
        try:
            self.output.release()
        except OSError:
            self.gone = True

    def _written(self, task: "asyncio.Task[None]") -> None:
        self._writing = None
        with suppress(OSError, asyncio.CancelledError):
            task.result()
        if self._pending and not self.gone:
            self._write_soon()
