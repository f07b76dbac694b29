"""`FrameOutput`: writes what belongs together in one piece, so that the prompt never blinks.

Between `hold` and `release` nothing reaches the terminal. Terminals that know synchronised updates (mode
2026) show the piece at once; others ignore the two sequences.
"""

import sys
from collections.abc import Mapping

from prompt_toolkit.output.vt100 import Vt100_Output

BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"


class FrameOutput(Vt100_Output):
    """The terminal, for the prompt and for printed lines. Used on the loop's thread only."""

    holding = False

    def hold(self) -> None:
        """Keep what is written from here on."""
        if not self.holding:
            self.write_raw(BEGIN)
            self.holding = True

    def release(self) -> None:
        """Write what was kept."""
        if self.holding:
            self.holding = False
            self.write_raw(END)
            self.flush()

    def flush(self) -> None:
        if not self.holding:
            super().flush()


def open_output(environment: Mapping[str, str]) -> FrameOutput:
    """The terminal on standard output."""
    known = Vt100_Output.from_pty(sys.stdout, term=environment.get("TERM"))
    return FrameOutput(sys.stdout, known.get_size, term=known.term)
