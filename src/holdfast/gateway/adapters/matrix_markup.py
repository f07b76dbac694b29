"""Markdown as Matrix shows it: the HTML that the specification lets a message have."""

import functools
import html
import json
from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

LINKS = ("https://", "http://", "ftp://", "mailto:", "magnet:")


class MatrixRenderer(RendererHTML):
    """Leaves out what clients take away: alignment of table cells, pictures of other servers, odd links."""

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """A picture as a link, for a message can only have pictures that are on the homeserver."""
        token = tokens[idx]
        address = str(token.attrGet("src") or "")
        label = self.renderInlineAsText(token.children, options, env) or address
        if not address.startswith(LINKS):
            return html.escape(label)
        return f'<a href="{html.escape(address)}">{html.escape(label)}</a>'

    def link_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        if not str(token.attrGet("href") or "").lower().startswith(LINKS):
            token.attrs.pop("href", None)
        return self.renderToken(tokens, idx, options, env)

    def td_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        tokens[idx].attrs.pop("style", None)
        return self.renderToken(tokens, idx, options, env)

    th_open = td_open


@functools.cache
def _parser() -> MarkdownIt:
    # HTML in the text is shown, not used; a line's end is a line's end, as people expect in a chat.
    options = {"html": False, "breaks": True, "xhtmlOut": False}
    return MarkdownIt("commonmark", options, renderer_cls=MatrixRenderer).enable(["table", "strikethrough"])


def matrix_html(markdown: str) -> str:
    """The HTML of a text; empty when it would show no more than the text itself."""
    rendered = _parser().render(markdown).strip()
    inner = rendered.removeprefix("<p>").removesuffix("</p>")
    if "<p>" not in inner and rendered.startswith("<p>") and rendered.endswith("</p>"):
        rendered = inner
    return "" if html.unescape(rendered.replace("<br>\n", "\n")) == markdown.strip() else rendered


def written(markdown: str) -> dict[str, Any]:
    """The parts of a message that show a text."""
    shown = matrix_html(markdown)
    formatted = {"format": "org.matrix.custom.html", "formatted_body": shown} if shown else {}
    return {"body": markdown, **formatted}


def measured(markdown: str) -> int:
    """The bytes that a text takes in an event: as it is and as HTML, escaped as JSON."""
    return len(json.dumps(written(markdown), ensure_ascii=False).encode("utf-8", "replace"))
