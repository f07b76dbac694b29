"""Styles markdown line by line, as it streams: what is printed is never changed again."""

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

    def styled(self, line: str) -> Text:
        fence = FENCE.match(line)
        if self._fence:
            if fence and fence[1].startswith(self._fence) and not fence[2]:
                self._fence = ""
                return Text(line, "dim")
            return self._code_line(line)
        if fence:
            # Highlighting brings its own library along: only an answer with code pays for it.
            from rich.syntax import Syntax

            self._fence = fence[1]
            self._code = Syntax("", fence[2] or "text", theme="ansi_dark", background_color="default")
            return Text(line, "dim")
        return _prose(line)

    def _code_line(self, line: str) -> Text:
        if self._code is None or len(line) > 2_000:  # noqa: PLR2004 - a lexer takes its time on long lines
            return Text(line)
        text = self._code.highlight(line)
        text.rstrip()
        text.no_wrap = False
        return text


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
