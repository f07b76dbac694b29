"""Fetches a web page as text. `web_addresses.py` checks the address, and `html_text.py` extracts the text.

Every redirect is checked like a new address. Time and size are limited, also the size after decompression.
"""

import asyncio
import codecs
import re
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from http import HTTPStatus
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from holdfast.core.clock import SystemClock
from holdfast.core.contract import Clock
from holdfast.core.errors import ToolFailed
from holdfast.core.messages import storable
from holdfast.process import NameLookup
from holdfast.tools.contract import ApprovalRequest, Tool, ToolContext, refusal
from holdfast.tools.decorator import tool
from holdfast.tools.html_text import html_to_text
from holdfast.tools.web_addresses import Target, parse, resolve

if TYPE_CHECKING:
    import httpx2

FETCH_SECONDS = 30.0
MAX_PAGE_BYTES = 5_000_000
MAX_REDIRECTS = 5
SNIFFED_BYTES = 8192
HTML = frozenset({"text/html", "application/xhtml+xml"})
TEXT = re.compile(
    r"text/.*|application/(?:.*\+)?(?:json|xml|yaml|javascript|x-ndjson|toml|sql)|.*\+(?:json|xml)|"
)
META_CHARSET = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE)
# Codecs that no page uses; some of them are slow on hostile input.
NO_CHARSETS = frozenset(
    {"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "utf_7", "utf-7"}
)
HEADERS = {
    "User-Agent": "holdfast",
    "Accept": "text/html, text/plain, application/json, */*;q=0.5",
    "Accept-Encoding": "identity",
}


@dataclass(frozen=True, slots=True)
class Page:
    """The answer of a server, whole or up to the limit."""

    url: "httpx2.URL"
    status: int
    content_type: str
    charset: str | None
    body: bytes
    cut: bool


class PageFetcher:
    """Fetches pages. Nothing is kept between two fetches, not even cookies."""

    def __init__(
        self,
        *,
        seconds: float = FETCH_SECONDS,
        largest: int = MAX_PAGE_BYTES,
        clock: Clock | None = None,
        names: NameLookup | None = None,
    ) -> None:
        self._seconds = seconds
        self._largest = largest
        self._clock = clock or SystemClock()
        self._names = names or NameLookup()

    def tool(self) -> Tool:
        # A person may be asked about an address, so the tool has its own time limits.
        return tool(timeout=None, changes=False)(self.fetch_page)

    async def fetch_page(self, url: Annotated[str, Field(min_length=1)], context: ToolContext) -> str:
        """Fetch a web page, or another text from the web, as readable text with its links.

        Args:
            url: the address, with http:// or https://

        """
        # The first fetch imports the library on a thread, because this takes a while.
        await context.off_loop(import_module, "httpx2")
        page = await self._follow(parse(url), context)
        text = await context.off_loop(self._as_text, page)
        if page.status >= HTTPStatus.BAD_REQUEST:
            raise ToolFailed(f"{page.url} answered {page.status}: {text[:1000]}")
        return str(text)

    async def _follow(self, url: "httpx2.URL", context: ToolContext) -> Page:
        for _ in range(MAX_REDIRECTS + 1):
            target = await self._checked(url, context)
            found = await self.get(target)
            if isinstance(found, Page):
                return found
            url = found
        raise ToolFailed(f"the page was redirected more than {MAX_REDIRECTS} times, at last to {url}")

    async def _checked(self, url: "httpx2.URL", context: ToolContext) -> Target:
        try:
            async with asyncio.timeout(self._seconds):
                target = await resolve(url, self._names)
        except TimeoutError:
            raise ToolFailed(f"the host {url.host!r} could not be found within {self._seconds:g} s") from None
        if target.private is not None:
            reason = f"leads to {target.private}, which is not on the open internet"
            if not await context.person.approve(ApprovalRequest(str(url), "fetch", reason)):
                raise ToolFailed(f"{url} {reason}, and {refusal(context.person)}. Nothing was fetched.")
        return target

    async def get(self, target: Target) -> "Page | httpx2.URL":
        """Fetch the page from the checked addresses; returns the page, or the URL of a redirect."""
        import httpx2

        try:
            async with asyncio.timeout(self._seconds), self._client() as client:
                last: httpx2.TransportError | None = None
                for address in target.addresses:
                    try:
                        return await self._from(client, target.url, address)
                    except (httpx2.ConnectError, httpx2.ConnectTimeout) as cause:
                        last = cause
                raise ToolFailed(f"{target.url} can't be reached: {last}")
        except TimeoutError:
            raise ToolFailed(f"{target.url} took more than {self._seconds:g} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, zlib.error) as cause:
            raise ToolFailed(
                f"{target.url} can't be fetched: {str(cause) or type(cause).__name__}"
            ) from cause

    def _client(self) -> "httpx2.AsyncClient":
        import httpx2

        # Proxies and netrc of the environment would bypass the check of the address.
        return httpx2.AsyncClient(trust_env=False, timeout=self._seconds)

    async def _from(
        self, client: "httpx2.AsyncClient", url: "httpx2.URL", address: str
    ) -> "Page | httpx2.URL":
        host = url.raw_host.decode("ascii")
        request = client.build_request(
            "GET",
            url.copy_with(host=address, fragment=None),
            headers={**HEADERS, "Host": url.netloc.decode("ascii")},
            extensions={"sni_hostname": host},
        )
        answer = await client.send(request, stream=True)
        try:
            if answer.has_redirect_location:
                return parse(str(url.join(answer.headers["location"])))
            kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
            if not TEXT.fullmatch(kind) and kind not in HTML:
                raise ToolFailed(f"{url} is {kind}, not text. To have the file, download it with a command.")
            body, cut = await self._body(answer)
            if b"\0" in body[:SNIFFED_BYTES] and not body.startswith(
                (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
            ):
                raise ToolFailed(
                    f"{url} is binary data, not text. To have the file, download it with a command."
                )
            return Page(url, answer.status_code, kind, answer.charset_encoding, body, cut)
        finally:
            await answer.aclose()

    async def _body(self, answer: "httpx2.Response") -> tuple[bytes, bool]:
        body = bytearray()
        async for piece in unpacked(answer):
            body += piece
            if len(body) > self._largest:
                return bytes(body[: self._largest]), True
        return bytes(body), False

    def _as_text(self, page: Page) -> str:
        text = decoded(page.body, page.charset)
        title = ""
        if page.content_type in HTML:
            title, text = html_to_text(text, str(page.url), self._clock)
        notes = f"\n\n[only the first {self._largest} bytes of the page were read]" if page.cut else ""
        head = f"{page.url}\n{title}\n" if title else f"{page.url}\n"
        return storable(f"{head}\n{text or '(no text)'}{notes}")


async def unpacked(answer: "httpx2.Response") -> AsyncIterator[bytes]:
    """The body while it arrives, decompressed in small pieces, because a few bytes can become gigabytes."""
    encoding = answer.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("identity", ""):
        async for piece in answer.aiter_raw():
            yield piece
        return
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise ToolFailed(f"{answer.url} is packed as {encoding}, which was not asked for")
    unpack = zlib.decompressobj(wbits=47)
    async for piece in answer.aiter_raw():
        rest = piece
        while rest and not unpack.eof:
            yield unpack.decompress(rest, 65_536)
            rest = unpack.unconsumed_tail
    yield unpack.flush()


def decoded(body: bytes, charset: str | None) -> str:
    """Decode the body in the encoding that the answer or the page names, or in UTF-8."""
    named = META_CHARSET.search(body[:4096])
    guesses = [charset, named[1].decode("ascii", "replace") if named else None]
    for mark, encoding in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if body.startswith(mark):
            guesses.insert(0, encoding)
    for guess in guesses:
        if guess is None or guess.lower().replace("-", "_") in NO_CHARSETS:
            continue
        try:
            return body.decode(guess, "replace")
        except (LookupError, UnicodeError, ValueError):
            continue
    return body.decode("utf-8", "replace")
