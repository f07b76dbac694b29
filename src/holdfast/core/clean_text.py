"""Removes from text what could control the terminal; for text of models, tools and other people.

Escape sequences and control characters are removed. So are characters that reorder a line: they could show
another command than the one that runs. All line ends become newlines.
"""

import re

ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]{0,65536}(?:\x07|\x1b\\|\x9c)"  # titles, links, device strings
    r"|\x1b[ -/]*[0-~]"
)
UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b\x9c]{0,4096}\x1b?|[ -/]*)?\Z")
UNSHOWN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)
LINE_ENDS = re.compile(r"\r\n?|[\u2028\u2029\x0b\x0c\x85]")
TAB = "    "


def clean(text: str) -> str:
    """The text, safe to show."""
    return UNSHOWN.sub("", LINE_ENDS.sub("\n", ESCAPES.sub("", text))).replace("\t", TAB)


def one_line(text: str, width: int, *, squeeze: bool = True) -> str:
    """The text in one line of at most `width` columns; `squeeze` makes one space of several."""
    from rich.cells import cell_len, set_cell_size

    # Far more than fits; the rest of a long text is not read.
    shown = clean(text[: 8 * width + 64])
    flat = " ".join(shown.split()) if squeeze else shown.replace("\n", " ")
    if cell_len(flat) <= width and len(text) <= 8 * width + 64:
        return flat
    return set_cell_size(flat, max(0, width - 1)).rstrip() + "…"


class CleanStream:
    """Cleans text that comes in pieces, also when a piece ends inside an escape sequence."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        text = self._held + piece
        cut = UNFINISHED.search(text)
        # The second half of CR LF may be in the next piece, too.
        end = cut.start() if cut else len(text) - text.endswith("\r")
        self._held = text[end:]
        return clean(text[:end])

    def close(self) -> str:
        """The rest that was held back."""
        left, self._held = self._held, ""
        return clean(left)
