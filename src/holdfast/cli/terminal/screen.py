"""`Screen`: what is printed goes to the scrollback once and stays; what still changes lives at the prompt.

Printing takes the prompt away, writes, and draws it again in one step, so a line is never in both places
and never in none.
"""

import asyncio
import io
from contextlib import suppress
from typing import Any

from prompt_toolkit.application import Application, get_app_or_none
from prompt_toolkit.output import Output
from rich.console import Console
from rich.text import Text

SMALLEST_WIDTH = 10


class Screen:
    """The terminal, for one conversation. Used on the loop's thread only."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._pending: list[str] = []
        self._writing: asyncio.Task[None] | None = None
        self.tail = ""
        """The line that is still being written; shown above the prompt."""
        self.gone = False
        """The terminal was closed; what is printed now is lost."""

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
        console = self.console()
        with console.capture() as captured:
            console.print(Text(text, style) if isinstance(text, str) else text)
        self._pending.append(captured.get())
        self._write_soon()

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
        # One breath, so that lines which come together are written together.
        await asyncio.sleep(0)
        while self._pending:
            app = get_app_or_none()
            if app is None or not app.is_running:
                self._write()
                continue
            # An answer that is under way says where the prompt was; it must come before the prompt moves.
            await app.renderer.wait_for_cpr_responses()
            self._write_above(app)

    def _write_above(self, app: Application[Any]) -> None:
        """Take the prompt away, write, and draw it again.

        The keyboard stays as it is: `run_in_terminal` would hand it back meanwhile, and a Ctrl-C that came
        just then would end the program instead of the turn.
        """
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
        if not task.cancelled():
            with suppress(OSError):
                error = task.exception()
                if error is not None:
                    raise error
        if self._pending and not self.gone:
            self._write_soon()
