"""Styles markdown line by line as it streams; a printed line is never changed."""

import re
from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
    from rich.syntax import Syntax

FENCE = re.compile(r"^\s*(`{3,}|~{3,})\s*([\w+#.-]*)\s*$")
HEADING = re.compile(r"^(#{1,6})\s+(.*)$")
ITEM = re.compile(r"^(\s*)[-*+]\s+(.*)$")
QUOTE = re.compile(r"^\s*>\s?(.*)$")
RULE = re.compile(r"^\s*([-*_])(?:\s*\1){2,}\s*$")
INLINE = re.compile(
    r"(?P<code>`+)(?P<in_code>.+?)(?P=code)"
    r"|(?P<bold>\*\*|__)(?=\S)(?P<in_bold>.+?)(?<=\S)(?P=bold)"
    r"|(?<![\w*])\*(?=[^\s*])(?P<in_emphasis>[^*]+?)(?<=\S)\*(?![\w*])"
)


class MarkdownLines:
    """The lines of one answer. Only a code fence reaches across lines."""

    def __init__(self) -> None:
        self._fence = ""
        self._code: Syntax | None = None

    def styled(self, line: str, *, continued: bool = False, keep: bool = True) -> Text:
        """One line with its styles.

        `continued`: the line's beginning was styled before, so this is no heading, item or fence.
        `keep=False`: the line may still change, so a fence in it opens and closes nothing yet.
        """
        fence = None if continued else FENCE.match(line)
        if self._fence:
            if fence and fence[1].startswith(self._fence) and not fence[2]:
                self._fence = "" if keep else self._fence
                return Text(line, "dim")
            return self._code_line(line)
        if fence:
            if keep:
                self._open_fence(fence[1], fence[2])
            return Text(line, "dim")
        return _inline(line) if continued else _prose(line)

    def source_place(self, line: str, shown: int, *, continued: bool = False) -> int:
        """The position in a line that follows the first `shown` characters of its styled form."""
        if self._fence or (not continued and FENCE.match(line)):
            return shown
        if not continued and RULE.match(line):
            return len(line)
        start, place = (0, shown) if continued else _into_body(line, shown)
        for found in INLINE.finditer(line, start):
            if place <= found.start():
                break
            inside = next(name for name in ("in_code", "in_bold", "in_emphasis") if found[name] is not None)
            place += found.start(inside) - found.start()
            if place < found.end(inside):
                break
            place += found.end() - found.end(inside)
        return min(place, len(line))

    def _open_fence(self, fence: str, language: str) -> None:
        # Imported here, so that only an answer with code pays for the highlighter.
        from rich.syntax import Syntax

        self._fence = fence
        self._code = Syntax("", language or "text", theme="ansi_dark", background_color="default")

    def _code_line(self, line: str) -> Text:
        if self._code is None or len(line) > 2_000:  # noqa: PLR2004 - a lexer takes its time on long lines
            return Text(line)
        text = self._code.highlight(line)
        text.rstrip()
        text.no_wrap = False
        return text


def cut_before(line: str, place: int) -> int:
    """Where to cut a line at `place` or a little before it, so that no style is cut in two."""
    for found in INLINE.finditer(line):
        if found.start() < place < found.end():
            return found.start() or place
    return place


def _into_body(line: str, shown: int) -> tuple[int, int]:
    """Where the text of a line begins, and the position in the line for one in its styled form."""
    start, mark = 0, 0
    if heading := HEADING.match(line):
        start = heading.start(2)
    elif item := ITEM.match(line):
        start, mark = item.start(2), len(item[1]) + 2
    elif quote := QUOTE.match(line):
        start, mark = quote.start(1), 2
    return start, start + max(0, shown - mark)


def _prose(line: str) -> Text:
    if heading := HEADING.match(line):
        return _inline(heading[2], "bold")
    if RULE.match(line):
        return Text("─" * 20, "dim")
    if item := ITEM.match(line):
        return Text.assemble(item[1], ("• ", "cyan"), _inline(item[2]))
    if quote := QUOTE.match(line):
        return Text.assemble(("│ ", "dim"), _inline(quote[1], "italic"))
    return _inline(line)


def _inline(line: str, style: str = "") -> Text:
    text = Text(style=style)
    end = 0
    for found in INLINE.finditer(line):
        text.append(line[end : found.start()])
        if found["code"]:
            text.append(found["in_code"], "cyan")
        elif found["bold"]:
            text.append(found["in_bold"], "bold")
        else:
            text.append(found["in_emphasis"], "italic")
        end = found.end()
    text.append(line[end:])
    return text
