"""HTML as readable text: headings, lists, links and tables in a plain form; scripts and styles left out."""

from html.parser import HTMLParser
from urllib.parse import urljoin

from holdfast.core.contract import Clock

SKIPPED = frozenset({"script", "style", "noscript", "template", "svg", "math", "iframe", "object", "canvas"})
BLOCKS = frozenset(
    {
        *(
            "address",
            "article",
            "aside",
            "blockquote",
            "body",
            "dd",
            "details",
            "div",
            "dl",
            "dt",
            "fieldset",
        ),
        *(
            "figcaption",
            "figure",
            "footer",
            "form",
            "header",
            "hr",
            "main",
            "nav",
            "ol",
            "p",
            "pre",
            "section",
        ),
        *("summary", "table", "tr", "ul"),
    }
)
HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
CHUNK = 16_384
PARSE_SECONDS = 5.0
DEEPEST_LIST = 6


class _Reader(HTMLParser):
    """Collects pieces of text. A newline in `out` is a line end of the result."""

    def __init__(self, address: str) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self.out: list[str] = []
        self._address = address
        self._skipped = ""
        self._depth = 0
        self._in_title = False
        self._preformatted = 0
        self._lists = 0
        self._link: str | None = None
        self._link_at = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._skipped:
            self._depth += tag == self._skipped
            return
        if tag in SKIPPED:
            self._skipped, self._depth = tag, 1
            return
        if tag == "title":
            self._in_title = True
        if tag in HEADINGS:
            self.out.append(f"\n\n{HEADINGS[tag]} ")
        elif tag in BLOCKS:
            self.out.append("\n\n" if tag != "tr" else "\n")
        self._start_inline(tag, dict(attrs))

    def _start_inline(self, tag: str, attrs: dict[str, str | None]) -> None:
        if tag in ("ul", "ol"):
            self._lists += 1
        elif tag == "li":
            self.out.append("\n" + "  " * min(max(0, self._lists - 1), DEEPEST_LIST) + "- ")
        elif tag == "br":
            self.out.append("\n")
        elif tag in ("td", "th"):
            self.out.append(" | ")
        elif tag == "pre":
            self._preformatted += 1
        elif tag == "img" and attrs.get("alt"):
            self.out.append(f"[image: {' '.join(str(attrs['alt']).split())}]")
        elif tag == "a" and attrs.get("href"):
            self._link, self._link_at = str(attrs["href"]), len(self.out)

    def handle_endtag(self, tag: str) -> None:
        if self._skipped:
            self._depth -= tag == self._skipped
            if self._depth == 0:
                self._skipped = ""
            return
        if tag == "title":
            self._in_title = False
        if tag in HEADINGS or tag in BLOCKS:
            self.out.append("\n\n" if tag != "tr" else "\n")
        if tag in ("ul", "ol"):
            self._lists = max(0, self._lists - 1)
        elif tag == "pre":
            self._preformatted = max(0, self._preformatted - 1)
        elif tag == "a":
            self._end_link()

    def _end_link(self) -> None:
        link, self._link = self._link, None
        said = " ".join("".join(self.out[self._link_at :]).split())
        if link is None or not said:
            return
        try:
            target = urljoin(self._address, link.strip())
        except ValueError:
            return
        if target.startswith(("http://", "https://")) and target.partition("#")[0] != self._address:
            self.out[self._link_at :] = [f"[{said}]({target})"]

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        elif not self._skipped:
            self.out.append(data if self._preformatted else " ".join(f"x{data}x".split())[1:-1])


def html_to_text(html: str, address: str, clock: Clock) -> tuple[str, str]:
    """The page's title and its text. A note at the end says how much could not be read in time."""
    reader = _Reader(address)
    deadline = clock.monotonic() + PARSE_SECONDS
    read = 0
    while read < len(html) and clock.monotonic() < deadline:
        reader.feed(html[read : read + CHUNK])
        read += CHUNK
    left = max(0, len(html) - read) + len(reader.rawdata)
    if left <= CHUNK:
        reader.close()
    else:
        # `close` would scan the unfinished rest once for each tag that begins in it, which takes too long.
        reader.out.append(f"\n\n[the last {left} characters of the page could not be read]")
    return " ".join(reader.title.split()), _tidied("".join(reader.out))


def _tidied(text: str) -> str:
    """At most one empty line in a row, and no blanks at the ends of lines."""
    lines: list[str] = []
    for line in text.split("\n"):
        if line.strip() or (lines and lines[-1]):
            lines.append(line.rstrip())
    return "\n".join(lines).strip("\n")
