"""Markdown as Telegram shows it: the few HTML tags of the Bot API, and the text that is left without them.

Telegram counts a message after it has taken the tags out, in UTF-16 units. What it has no tag for becomes
text: a table is preformatted, a list has bullets, a heading is bold.
"""

import html
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from rich.cells import cell_len

LINKS = ("http://", "https://", "tg://")
STYLES = {"strong": "b", "em": "i", "s": "s", "heading": "b"}
# Deeper than people write; what is nested deeper than this, the parser would leave out.
MAX_NESTING = 100


@dataclass(frozen=True, slots=True)
class TelegramText:
    """A text in Telegram's HTML, and as a person reads it."""

    html: str
    text: str

    @property
    def size(self) -> int:
        return utf16_size(self.text)


def utf16_size(text: str) -> int:
    """The length in the unit in which Telegram gives limits and offsets."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def utf16_cut(text: str, most: int) -> str:
    """The text, with an ellipsis in place of its end when it has more than `most` units."""
    if utf16_size(text) <= most:
        return text
    return text.encode("utf-16-le", "surrogatepass")[: 2 * (most - 1)].decode("utf-16-le", "ignore") + "…"


def telegram_text(markdown: str) -> TelegramText:
    """What is sent for this Markdown. What has no text, such as `[]()`, is sent as it is."""
    # Half a surrogate pair can't be sent as UTF-8.
    source = markdown.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    writer = _Writer()
    writer.blocks(SyntaxTreeNode(_parser().parse(source)).children, "\n\n")
    rendered = writer.finished()
    return rendered if rendered.text.strip() else TelegramText(html.escape(source, quote=False), source)


@cache
def _parser() -> MarkdownIt:
    options = {"html": False, "maxNesting": MAX_NESTING}
    return MarkdownIt("commonmark", options).enable(["table", "strikethrough"])


class _Writer:
    """Writes the HTML and its text side by side."""

    def __init__(self) -> None:
        self._html: list[str] = []
        self._text: list[str] = []
        self._gap = ""
        self._styles: list[str] = []
        self._depth = 0
        self._in_quote = False
        self._in_link = False

    def finished(self) -> TelegramText:
        return TelegramText("".join(self._html), "".join(self._text))

    def blocks(self, nodes: Sequence[SyntaxTreeNode], gap: str) -> None:
        for number, node in enumerate(nodes):
            if number:
                self._separate(gap)
            self._block(node)

    def inline(self, nodes: Sequence[SyntaxTreeNode]) -> None:
        for node in nodes:
            match node.type:
                case "softbreak" | "hardbreak":
                    self._write("\n")
                case "code_inline":
                    self._code(node.content)
                case "strong" | "em" | "s":
                    with self._style(STYLES[node.type]):
                        self.inline(node.children)
                case "link":
                    self._link(str(node.attrs.get("href", "")), node.children)
                case "image":
                    self._link(str(node.attrs.get("src", "")), node.children)
                case "inline":
                    self.inline(node.children)
                case _:
                    self._write(node.content)

    def _block(self, node: SyntaxTreeNode) -> None:
        match node.type:
            case "heading":
                with self._style(STYLES["heading"]):
                    self.inline(node.children)
            case "fence" | "code_block":
                self._preformatted(node.content.rstrip("\n"), node.info.split()[:1])
            case "blockquote":
                self._quote(node)
            case "bullet_list" | "ordered_list":
                self._list(node)
            case "table":
                self._preformatted(_table(node), [])
            case "hr":
                self._write("———")
            case _:
                self.inline(node.children)

    def _quote(self, node: SyntaxTreeNode) -> None:
        if self._in_quote:  # Telegram's quotes can't be nested
            return self.blocks(node.children, "\n\n")
        self._in_quote = True
        with self._tag("blockquote"):
            self.blocks(node.children, "\n\n")
        self._in_quote = False
        return None

    def _list(self, node: SyntaxTreeNode) -> None:
        is_tight = all(child.hidden for item in node.children for child in item.children[:1])
        gap = "\n" if is_tight else "\n\n"
        first = int(node.attrs.get("start", 1))
        self._depth += 1
        for number, item in enumerate(node.children):
            if number:
                self._separate(gap)
            marker = f"{first + number}." if node.type == "ordered_list" else "•"
            self._write(f"{'   ' * (self._depth - 1)}{marker} ")
            self.blocks(item.children, gap)
        self._depth -= 1

    def _link(self, target: str, label: Sequence[SyntaxTreeNode]) -> None:
        is_link = target.startswith(LINKS) and not self._in_link
        text = _plain(label)
        if not is_link:
            self.inline(label)
            readable = unquote(target).removeprefix("mailto:")
            if readable and readable not in (text, unquote(text)):
                self._write(f" ({readable})" if text else readable)
            return
        self._in_link = True
        with self._tag("a", f' href="{html.escape(target)}"'):
            if text.strip():
                self.inline(label)
            else:
                self._write(target)
        self._in_link = False

    def _code(self, code: str) -> None:
        """Code is never part of another style, so the open ones end before it and begin anew after it."""
        if self._in_link:
            return self._write(code)
        self._flush_gap()
        self._html += [f"</{tag}>" for tag in reversed(self._styles)]
        with self._tag("code"):
            self._write(code)
        self._html += [f"<{tag}>" for tag in self._styles]
        return None

    def _preformatted(self, content: str, language: Sequence[str]) -> None:
        if not content.strip():
            return
        with self._tag("pre"), ExitStack() as inner:
            if language:
                inner.enter_context(self._tag("code", f' class="language-{html.escape(language[0])}"'))
            self._write(content)

    @contextmanager
    def _style(self, tag: str) -> Iterator[None]:
        if tag in self._styles:
            yield
            return
        with self._tag(tag):
            self._styles.append(tag)
            yield
            self._styles.pop()

    @contextmanager
    def _tag(self, tag: str, attributes: str = "") -> Iterator[None]:
        self._flush_gap()
        self._html.append(f"<{tag}{attributes}>")
        yield
        self._html.append(f"</{tag}>")

    def _write(self, text: str) -> None:
        if text:
            self._flush_gap()
            self._html.append(html.escape(text, quote=False))
            self._text.append(text)

    def _separate(self, gap: str) -> None:
        """Put a gap before the next text, if there is text before and after it."""
        if self._text and len(gap) > len(self._gap):
            self._gap = gap

    def _flush_gap(self) -> None:
        gap, self._gap = self._gap, ""
        if gap:
            self._html.append(gap)
            self._text.append(gap)


def _plain(nodes: Sequence[SyntaxTreeNode]) -> str:
    writer = _Writer()
    writer.inline(nodes)
    return writer.finished().text


def _table(table: SyntaxTreeNode) -> str:
    rows = [row for part in table.children for row in part.children]
    cells = [[_plain(cell.children) for cell in row.children] for row in rows]
    widths = [max(cell_len(text) for text in column) for column in zip(*cells, strict=True)]
    to_right = ["right" in str(cell.attrs.get("style", "")) for cell in rows[0].children]
    lines = []
    for row in cells:
        padded = []
        for text, width, is_right in zip(row, widths, to_right, strict=True):
            space = " " * (width - cell_len(text))
            padded.append(space + text if is_right else text + space)
        lines.append(" | ".join(padded).rstrip())
    lines.insert(1, "-+-".join("-" * width for width in widths))
    return "\n".join(lines)
