"""Markdown to Discord's own markup, the mark by which a message is found again, and sizes.

Discord speaks nearly Markdown. It has no tables (they become code blocks), no pictures, no rules and three
levels of headings; `||` hides text and `__` underlines; words such as `@everyone` would ring.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Sequence

MAX_CHARACTERS = 2000
NONCE_CHARACTERS = 25

_FENCE = re.compile(r"(\s*)(`{3,}|~{3,})")
_CODE_SPAN = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
# No repetition gives back what it took: on a line of many blanks that would take hours.
_TABLE_RULE = re.compile(r"\s*+\|?\s*+:?-++:?\s*+(\|\s*+:?-++:?\s*+)*\|?\s*+")
_CELL_BORDER = re.compile(r"(?<!\\)\|")
_DEEP_HEADING = re.compile(r"\s{0,3}#{4,6}\s++(.+)")
_RULE = re.compile(r"^\s{0,3}([-*_])(\s*\1){2,}\s*$")
_PICTURE = re.compile(r"!(\[[^\]\n]*\]\([^)\s]+\))")
_BOLD_UNDERSCORES = re.compile(r"(?<![\w\\])__(?=\S)(.+?)(?<=\S)__(?!\w)")
_PING = re.compile(r"@(?=everyone|here)|(?<=<)@(?=[!&]?\d)|(?<=<)#(?=\d)")
_RULE_LINE = "─" * 12

# Four invisible signs that are no white space, so that Discord keeps them; each stands for two bits.
_MARK_SIGNS = "\u2061\u2062\u2063\u2064"
_MARK_BYTES = 4
MARK_SIZE = 1 + _MARK_BYTES * 4
_MARK = re.compile(f" ?[{_MARK_SIGNS}]{{{_MARK_BYTES * 4}}}$")


def to_discord(markdown: str) -> str:
    """The text as Discord shows it best; code stays as it is."""
    return "\n".join(_blocks(markdown.split("\n")))


def size(text: str) -> int:
    """Discord's limit is in characters; UTF-16 units are never fewer than it counts."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def nonce(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:NONCE_CHARACTERS]


def mark(key: str) -> str:
    """An invisible ending that finds the message again: Discord forgets a nonce, but keeps the text.

    The space before it keeps the signs out of a link at the end of the text.
    """
    digest = hashlib.sha256(b"mark:" + key.encode()).digest()[:_MARK_BYTES]
    return " " + "".join(_MARK_SIGNS[byte >> shift & 3] for byte in digest for shift in (6, 4, 2, 0))


def without_mark(text: str) -> str:
    return _MARK.sub("", text)


def _blocks(lines: Sequence[str]) -> Iterator[str]:
    """Lines of prose are converted together, since a code span may go over several of them."""
    prose: list[str] = []
    at = 0
    while at < len(lines):
        end = _code_end(lines, at) or _table_end(lines, at)
        if end is None:
            prose.append(lines[at])
            at += 1
            continue
        if prose:
            yield _prose("\n".join(prose))
            prose = []
        yield from (_code if _FENCE.match(lines[at]) else _table)(lines[at:end])
        at = end
    if prose:
        yield _prose("\n".join(prose))


def _code_end(lines: Sequence[str], at: int) -> int | None:
    opening = _FENCE.match(lines[at])
    if opening is None:
        return None
    for number in range(at + 1, len(lines)):
        closing = _FENCE.match(lines[number])
        if closing and closing[2].startswith(opening[2]) and not lines[number][closing.end() :].strip():
            return number + 1
    return len(lines)


def _code(lines: Sequence[str]) -> Iterator[str]:
    """Discord knows one fence only, so a longer one, or one of tildes, may have that one inside."""
    opening = _FENCE.match(lines[0])
    if opening is None or opening[2] == "```":
        yield from lines
        return
    is_closed = len(lines) > 1 and _FENCE.sub("", lines[-1]).strip() == "" and opening[2] in lines[-1]
    inner = lines[1:-1] if is_closed else lines[1:]
    yield _FENCE.sub(r"\1```", lines[0], count=1)
    yield from (line.replace("```", "``\u200b`") for line in inner)
    if is_closed:
        yield "```"


def _table_end(lines: Sequence[str], at: int) -> int | None:
    is_table = "|" in lines[at] and at + 1 < len(lines) and "|" in lines[at + 1]
    if not is_table or not _TABLE_RULE.fullmatch(lines[at + 1]):
        return None
    end = at + 2
    while end < len(lines) and "|" in lines[end]:
        end += 1
    return end


def _table(lines: Sequence[str]) -> Iterator[str]:
    rows = [_cells(line) for number, line in enumerate(lines) if number != 1]
    columns = max(map(len, rows))
    rows = [row + [""] * (columns - len(row)) for row in rows]
    widths = [max(_width(row[column]) for row in rows) for column in range(columns)]
    yield "```"
    for number, row in enumerate(rows):
        filled = [cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)]
        yield " │ ".join(filled).rstrip()
        if number == 0:
            yield "─┼─".join("─" * width for width in widths)
    yield "```"


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return [
        cell.strip().replace("\\|", "|").replace("```", "'''").replace("**", "")
        for cell in _CELL_BORDER.split(inner)
    ]


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text)


def _prose(text: str) -> str:
    parts: list[str] = []
    at = 0
    for code in _CODE_SPAN.finditer(text):
        parts += [_outside_code(text[at : code.start()]), code[0]]
        at = code.end()
    parts.append(_outside_code(text[at:]))
    lines = "".join(parts).split("\n")
    return "\n".join(_line(line) for line in lines)


def _line(line: str) -> str:
    if _RULE.match(line):
        return _RULE_LINE
    heading = _DEEP_HEADING.match(line)
    return line if heading is None else f"**{_without_closing_marks(heading[1]).replace('**', '')}**"


def _without_closing_marks(heading: str) -> str:
    """`Title` of `Title ##`; the `#` of `C#` stays."""
    text = heading.rstrip()
    words = text.rstrip("#")
    return words.rstrip() if words[-1:].isspace() else text


def _outside_code(text: str) -> str:
    text = _PICTURE.sub(r"\1", text)
    text = _BOLD_UNDERSCORES.sub(r"**\1**", text)
    text = text.replace("||", "\\|\\|")
    return _PING.sub(lambda ping: ping[0] + "\u200b", text)
