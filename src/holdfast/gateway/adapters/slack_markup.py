"""Markdown as Slack's mrkdwn, mrkdwn as plain text, and Slack's names for emoji.

mrkdwn has no way to escape its own marks (`*`, `_`, `~`), only the three characters `&`, `<` and `>`. A mark
counts only beside a space or punctuation, so a zero-width space separates it from a word.
"""

import html
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

ZERO_WIDTH = "\u200b"
MARKS = {"strong": "*", "em": "_", "s": "~"}
BULLETS = ("•", "◦", "▪")
LINKED = frozenset({"http", "https", "mailto"})

_USER = re.compile(r"&lt;(@[UW][A-Z0-9]+)&gt;")
_SPECIAL = re.compile(r"<([^<>]*)>")
_EMOJI_NAMES = {
    "👍": "+1",
    "👎": "-1",
    "✅": "white_check_mark",
    "✔": "heavy_check_mark",
    "❌": "x",
    "⏳": "hourglass_flowing_sand",
    "⚠": "warning",
    "❗": "exclamation",
    "❓": "question",
    "❤": "heart",
    "🎉": "tada",
    "🤔": "thinking_face",
    "💡": "bulb",
    "🔥": "fire",
    "🛑": "octagonal_sign",
    "⏸": "double_vertical_bar",
    "📎": "paperclip",
    "✏": "pencil2",
    "💬": "speech_balloon",
    "🚫": "no_entry_sign",
}


def to_mrkdwn(markdown: str) -> str:
    """The text as Slack shows it. A person's `<@U…>` stays a mention; `<!channel>` does not become one."""
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    return "\n\n".join(_blocks(parser.parse(markdown))).strip()


def to_plain(mrkdwn: str, name: Callable[[str], str]) -> str:
    """A person's message as plain text; `name` says what stands for the id of a person."""
    return html.unescape(_SPECIAL.sub(lambda found: _plain_special(found[1], name), mrkdwn))


def mentioned(mrkdwn: str) -> list[str]:
    """The ids of the people whom a message names."""
    return re.findall(r"<@([UW][A-Z0-9]+)(?:\|[^<>]*)?>", mrkdwn)


def emoji_name(emoji: str) -> str:
    """Slack's name of an emoji; a name is taken as it is."""
    character = emoji.replace("\ufe0f", "").strip(":")
    if character.isascii():
        return character
    if character in _EMOJI_NAMES:
        return _EMOJI_NAMES[character]
    return unicodedata.name(character[0], "question").lower().replace(" ", "_")


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _plain_special(inside: str, name: Callable[[str], str]) -> str:
    target, _, label = inside.partition("|")
    if target.startswith("@"):
        return "@" + (label or name(target[1:]))
    if target.startswith("#"):
        return "#" + (label or target[1:])
    if target.startswith("!"):
        return label or "@" + target[1:].partition("^")[0]
    if not label or label in target:
        return target
    return f"{label} ({target})"


def _blocks(tokens: Sequence[Token], depth: int = 0) -> Iterator[str]:
    """Each block of these tokens as text."""
    at = 0
    while at < len(tokens):
        token, end = tokens[at], _end_of(tokens, at)
        inner = tokens[at + 1 : end]
        at = end + 1
        match token.type:
            case "paragraph_open":
                yield _inline(inner[0].children or [])
            case "heading_open":
                yield f"*{_inline(inner[0].children or [], plain=True)}*"
            case "fence" | "code_block":
                yield _preformatted(token.content)
            case "blockquote_open":
                yield "\n".join(f"> {line}" for line in "\n\n".join(_blocks(inner)).split("\n"))
            case "bullet_list_open" | "ordered_list_open":
                yield _list(token, inner, depth)
            case "table_open":
                yield _preformatted(_table(inner))
            case "hr":
                yield "———"
            case _:
                yield escaped(token.content)


def _end_of(tokens: Sequence[Token], at: int) -> int:
    """Where the block that begins here ends."""
    level = 0
    for position in range(at, len(tokens)):
        level += tokens[position].nesting
        if level == 0:
            return position
    return len(tokens) - 1


def _list(opening: Token, tokens: Sequence[Token], depth: int) -> str:
    lines: list[str] = []
    number = int(opening.attrs.get("start", 1))
    at = 0
    while at < len(tokens):
        end = _end_of(tokens, at)
        sign = BULLETS[min(depth, len(BULLETS) - 1)]
        if opening.type == "ordered_list_open":
            sign, number = f"{number}.", number + 1
        text = "\n".join(_blocks(tokens[at + 1 : end], depth + 1))
        first, *others = text.split("\n")
        lines += [f"{sign} {first}", *(f"    {line}" for line in others)]
        at = end + 1
    return "\n".join(lines)


def _table(tokens: Sequence[Token]) -> str:
    """The rows with their columns aligned, as plain text."""
    rows: list[list[str]] = []
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append("".join(_text_of(token.children or [])))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines.insert(1, "-|-".join("-" * width for width in widths))
    return "\n".join(lines)


def _text_of(tokens: Sequence[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type == "image":
            yield from _text_of(token.children or [])
        else:
            yield " " if token.type in {"softbreak", "hardbreak"} else token.content


def _preformatted(content: str) -> str:
    """A block of code; three backticks within it would end it."""
    inside = escaped(content.rstrip("\n")).replace("```", f"`{ZERO_WIDTH}`{ZERO_WIDTH}`")
    return f"```\n{inside}\n```"


def _inline(tokens: Sequence[Token], *, plain: bool = False) -> str:
    """Text with its marks; `plain` leaves bold out, since a heading is bold already."""
    text = ""
    at = 0
    while at < len(tokens):
        token, end = tokens[at], _end_of(tokens, at)
        inner, at = tokens[at + 1 : end], end + 1
        match token.type:
            case "strong_open" | "em_open" | "s_open":
                text = _joined(text, _marked(token, inner, plain=plain))
            case "code_inline":
                text = _joined(text, f"`{escaped(token.content)}`" if token.content.strip() else "")
            case "link_open":
                text += _link(str(token.attrs.get("href", "")), _inline(inner, plain=plain))
            case "image":
                label = "".join(_text_of(token.children or []))
                text += _link(str(token.attrs.get("src", "")), escaped(label))
            case "softbreak" | "hardbreak":
                text += "\n"
            case _:
                text = _joined(text, _USER.sub(r"<\1>", escaped(token.content)))
    return text


def _marked(token: Token, inner: Sequence[Token], *, plain: bool) -> str:
    mark = MARKS[token.type.removesuffix("_open")]
    text = _inline(inner, plain=plain)
    return text if (plain and mark == "*") or not text.strip() else f"{mark}{text}{mark}"


def _joined(before: str, after: str) -> str:
    """Both texts; a mark that would touch a word is kept apart from it."""
    marks = "*_~`"
    ends = before[-1:]
    starts = after[:1]
    touching = (ends.isalnum() and starts and starts in marks) or (
        ends and ends in marks and starts.isalnum() and len(before) > 1
    )
    return f"{before}{ZERO_WIDTH}{after}" if touching else before + after


def _link(target: str, label: str) -> str:
    if urlsplit(target).scheme.lower() not in LINKED:
        return label
    address = escaped(target).replace("|", "%7C")
    if not label or label in (address, address.removeprefix("mailto:")):
        return f"<{address}>"
    return f"<{address}|{label.replace('|', '¦')}>"
