"""Reads Telegram's HTML as strictly as the Bot API documents it; the text is what a person sees."""

from html.parser import HTMLParser

SIMPLE_TAGS = {"b", "strong", "i", "em", "u", "ins", "s", "strike", "del", "tg-spoiler", "code", "pre"}
CODE = {"code", "pre"}


class BadHtml(Exception):
    """Telegram would answer "can't parse entities"."""


def text_of(html: str) -> str:
    """The text without its tags; `BadHtml` for a tag, attribute or nesting that Telegram doesn't know."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    if reader.open:
        raise BadHtml(f"can't find end tag corresponding to start tag {reader.open[-1]}")
    return "".join(reader.text)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._check_attributes(tag, dict(attrs))
        is_language = tag == "code" and self.open[-1:] == ["pre"] and bool(attrs)
        if CODE & set(self.open) and not is_language:
            raise BadHtml(f"{tag} inside of code")
        if tag in CODE and set(self.open) - CODE - {"blockquote"}:
            raise BadHtml(f"code inside of {self.open[-1]}")
        if tag == "blockquote" and tag in self.open:
            raise BadHtml("a quote inside of a quote")
        self.open.append(tag)

    def _check_attributes(self, tag: str, attributes: dict[str, str | None]) -> None:
        match tag:
            case "a":
                if set(attributes) != {"href"} or not attributes["href"]:
                    raise BadHtml("a link without an address")
            case "code" if attributes:
                language = attributes.get("class") or ""
                if set(attributes) != {"class"} or not language.startswith("language-"):
                    raise BadHtml(f"code with {attributes}")
            case "blockquote" if set(attributes) <= {"expandable"}:
                pass
            case _ if tag not in SIMPLE_TAGS or attributes:
                raise BadHtml(f"unsupported start tag {tag}")

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            raise BadHtml(f"unexpected end tag {tag}")

    def handle_data(self, data: str) -> None:
        if "<" in data or "&" in data:
            raise BadHtml(f"a sign that is not escaped: {data}")
        self.text.append(data)

    def handle_entityref(self, name: str) -> None:
        known = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}
        if name not in known:
            raise BadHtml(f"unknown entity {name}")
        self.text.append(known[name])

    def handle_charref(self, name: str) -> None:
        self.text.append(chr(int(name[1:], 16) if name.startswith("x") else int(name)))

    def handle_comment(self, data: str) -> None:
        raise BadHtml("a comment")

    def handle_decl(self, decl: str) -> None:
        raise BadHtml("a declaration")

    def handle_pi(self, data: str) -> None:
        raise BadHtml("an instruction")

    def unknown_decl(self, data: str) -> None:
        raise BadHtml("a declaration")
