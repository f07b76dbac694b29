"""Styles within a line of markdown: bold text, code, links, formulas.

A line is cut into pieces, each with what is shown of it and where it stands in the source. So a place in the
shown text can be found in the source again (`source_place`), as the open line needs it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from rich.text import Text

from holdfast.cli.terminal.formulas import formula_text

INLINE = re.compile(
    r"(?P<code>`+)(?P<in_code>.+?)(?P=code)(?!`)"
    r"|\$\$(?P<display>[^$]+?)\$\$"
    r"|\\\((?P<round>.+?)\\\)"
    r"|\\\[(?P<square>.+?)\\\]"
    # As pandoc reads it, so that prices are no formulas.
    r"|(?<![\\$\w])\$(?=[^\s$])(?P<dollar>[^$]*?[^\s\\$])\$(?![\d$])"
    r"|\\(?P<escaped>[!-/:-@\[-`{-~])"
    r"|!?\[(?P<label>[^\[\]]*)\]\((?P<target><[^<>]*>|[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?:\s+\"[^\"]*\")?\)"
    r"|<(?P<auto>https?://[^<>\s]+)>"
    r"|(?P<bare>https?://[^\s<>()`*]*[^\s<>()`*.,;:!?'\"])"
    r"|(?P<bold>\*\*|__)(?=\S)(?P<in_bold>.+?)(?<=\S)(?P=bold)"
    r"|~~(?=\S)(?P<in_struck>.+?)(?<=\S)~~"
    r"|(?<![\w*])\*(?=[^\s*])(?P<in_star>[^*]+?)(?<=\S)\*(?![\w*])"
    r"|(?<![\w_])_(?=[^\s_])(?P<in_under>[^_]+?)(?<=\S)_(?![\w_])"
)
FORMULAS = ("display", "round", "square", "dollar")
NESTED = {"in_bold": "strong", "in_struck": "struck", "in_star": "emphasis", "in_under": "emphasis"}


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a line: what is shown, and where its source ends.

    `body` is where the shown characters stand in the source; None when they are not there as such.
    """

    shown: str
    style: str
    body: int | None
    end: int


def inline(line: str, style: str = "", start: int = 0) -> Text:
    """A line, or its rest from `start` on, with its styles."""
    text = Text(style=style)
    for piece in pieces(line, start):
        text.append(piece.shown, piece.style or None)
    return text


def source_place(line: str, shown: int, start: int = 0) -> int:
    """The position in a line that follows the first `shown` characters of its styled form."""
    end = start
    for piece in pieces(line, start):
        if shown <= 0:
            break
        if shown < len(piece.shown):
            # A formula can't be cut: it comes again as a whole.
            return end if piece.body is None else piece.body + shown
        shown -= len(piece.shown)
        end = piece.end
    return end


def cut_before(line: str, place: int) -> int:
    """Where to cut a line at `place` or a little before it, so that no style is cut in two."""
    for found in INLINE.finditer(line):
        if found.start() < place < found.end():
            return found.start() or place
    return place


def pieces(line: str, start: int = 0, end: int | None = None) -> Iterator[Piece]:
    """The pieces of a line, in order."""
    stop = len(line) if end is None else end
    place = start
    for found in INLINE.finditer(line, start, stop):
        if found.start() > place:
            yield Piece(line[place : found.start()], "", place, found.start())
        yield from _within(line, found)
        place = found.end()
    if place < stop:
        yield Piece(line[place:stop], "", place, stop)


def _within(line: str, found: "re.Match[str]") -> Iterator[Piece]:
    end = found.end()
    kind = found.lastgroup or ""
    if found["in_code"] is not None:
        yield Piece(found["in_code"], "code", found.start("in_code"), end)
    elif kind in FORMULAS:
        yield Piece(formula_text(found[kind]).replace("\n", "; "), "formula", None, end)
    elif kind in ("escaped", "auto", "bare"):
        yield Piece(found[kind], "" if kind == "escaped" else "address", found.start(kind), end)
    elif found["label"] is not None:
        yield from _link(found)
    else:
        inner = next(name for name in NESTED if found[name] is not None)
        nested = list(pieces(line, found.start(inner), found.end(inner)))
        for piece in nested[:-1]:
            yield _styled(piece, NESTED[inner])
        # The last one takes the closing mark with it.
        yield replace(_styled(nested[-1], NESTED[inner]), end=end)


def _link(found: "re.Match[str]") -> Iterator[Piece]:
    """The text and the address of a link: a person sees where it leads."""
    label, target = found["label"], found["target"].strip("<>")
    if not label or label == target:
        yield Piece(target, "address", None, found.end())
        return
    yield Piece(label, "", found.start("label"), found.end("label") if target else found.end())
    if target:
        # Only the last one ends the source: a line that goes on after another still needs the address.
        yield Piece(" (", "", None, found.end("label"))
        yield Piece(target, "address", None, found.end("label"))
        yield Piece(")", "", None, found.end())


def _styled(piece: Piece, style: str) -> Piece:
    return replace(piece, style=piece.style or style)
