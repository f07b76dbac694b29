"""`Screen`: printed lines go to the scrollback and stay; lines that still change are part of the prompt.

Printing erases the prompt, writes, and draws the prompt again in one step, so a line is always in exactly one
of the two places.
"""

import asyncio
import io
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from prompt_toolkit.application import Application, get_app_or_none
from prompt_toolkit.output import Output
from rich.console import Console
from rich.text import Text

from holdfast.cli.terminal.reflow import left_above

SMALLEST_WIDTH = 10


class Screen:
    """The terminal, for one conversation. Used on the loop's thread only."""

    def __init__(self, output: Output, *, wraps_anew: bool = False) -> None:
        self._output = output
        self._wraps_anew = wraps_anew
        self._drawn_width = 0
        self.above: list[str] = []
        """The lines that were last drawn at the prompt, down to the one with its mark."""
        self.on_rows_kept: Callable[[str], None] = lambda _: None
        """Called with the rows of these lines that a narrower window left in the scrollback."""
        self._pending: list[str] = []
        self._writing: asyncio.Task[None] | None = None
        self.gone = False
        """The terminal was closed; printed lines are lost."""

    @property
    def width(self) -> int:
        return max(SMALLEST_WIDTH, self._output.get_size().columns)

    @property
    def height(self) -> int:
        return self._output.get_size().rows

    def console(self) -> Console:
        """A console that writes nowhere, as wide as the terminal is now."""
        return Console(
            file=io.StringIO(), width=self.width, force_terminal=True, highlight=False, markup=False
        )

    def print(self, text: str | Text = "", style: str = "") -> None:
        """Put lines into the scrollback, above the prompt."""
        self._pending.append(self.rendered(Text(text, style) if isinstance(text, str) else text))
        self._write_soon()

    def rendered(self, text: Text) -> str:
        """The text in rows as wide as the terminal is now, each with its line end."""
        console = self.console()
        with console.capture() as captured:
            console.print(text)
        return captured.get()

    def refresh(self) -> None:
        """What is shown at the prompt has changed."""
        app = get_app_or_none()
        if app is not None:
            app.invalidate()

    async def settle(self) -> None:
        """Wait until all that was printed is on the terminal."""
        while self._writing is not None:
            await asyncio.wait([self._writing])

    def _write_soon(self) -> None:
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all(), name="screen")
            self._writing.add_done_callback(self._written)

    async def _write_all(self) -> None:
        # Lines that come together are written together.
        await asyncio.sleep(0)
        while self._pending:
            app = get_app_or_none()
            if app is None or not app.is_running:
                self._write()
                continue
            # A pending answer to a cursor request must arrive before the prompt moves.
            await app.renderer.wait_for_cpr_responses()
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

    def _write_above(self, app: Application[Any]) -> None:
        """Take the prompt away, write, and draw it again.

        The keyboard mode stays: `run_in_terminal` would reset it for a moment, and a Ctrl-C in that moment
        would end the program instead of the turn.
        """
        self.before_drawing(app)
        app.renderer.erase()
        self._write()
        app.renderer.reset()
        app.renderer.request_absolute_cursor_position()
        app.invalidate()

    def _write(self) -> None:
        text = "".join(self._pending).replace("\n", "\r\n")
        self._pending.clear()
        try:
            self._output.write_raw(text)
            self._output.flush()
        except OSError:
            self.gone = True

    def _written(self, task: "asyncio.Task[None]") -> None:
        self._writing = None
        with suppress(OSError, asyncio.CancelledError):
            task.result()
        if self._pending and not self.gone:
            self._write_soon()
