"""Pages are fetched as text, from the open internet only unless a person says otherwise, within limits."""

import asyncio
import gzip
import ipaddress
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import ToolFailed
from holdfast.process import NameLookup
from holdfast.process.name_lookup import AddressInfo
from holdfast.tools.web import Page, PageFetcher, unpacked
from holdfast.tools.web_addresses import NAT64, Target, is_public, parse, resolve
from tests.agent.agent_fixtures import until
from tests.tools.call_fixtures import LONG, Calls, finish

pytestmark = pytest.mark.timeout(60)


ARTICLE = (
    b"<title>The  Title</title><style>p{}</style><script>evil()</script><h1>Head</h1>"
    b"<p>One <a href='/two#x'>two &amp; three</a> <b>four</b></p><ul><li>a<li>b</ul><pre>x\n  y</pre>"
    b"<table><tr><td>1<td>2</table><a href='javascript:evil()'>click</a>"
)


class Site(BaseHTTPRequestHandler):
    """Answers by path, with what a hostile page might send."""

    protocol_version = "HTTP/1.1"
    pages: ClassVar[dict[str, tuple[str, bytes]]] = {
        "/plain": ("text/plain; charset=utf-8", "grün".encode()),
        "/latin": ("text/plain; charset=iso-8859-1", "grün".encode("latin-1")),
        "/lies": ("text/plain; charset=utf-8", b"gr\xfcn"),
        "/nonsense": ("text/plain; charset=no-such-thing", "grün".encode()),
        "/hex": ("text/plain; charset=hex", b"6162"),
        "/meta": ("text/html", b"<meta charset='windows-1251'><p>\xcf\xf0\xe8\xe2\xe5\xf2"),
        "/utf16": ("text/html", "<p>grün".encode("utf-16")),
        "/json": ("application/json", b'{"a": 1}'),
        "/untyped": ("", b"just text"),
        "/image": ("image/png", b"\x89PNG"),
        "/binary": ("text/plain", b"a\x00b"),
        "/empty": ("text/html", b""),
        "/html": ("text/html; charset=utf-8", ARTICLE),
    }
    redirects: ClassVar[dict[str, str]] = {
        "/moved": "/plain",
        "/circle": "/circle",
        "/file": "file:///etc/passwd",
        "/inner": "http://127.0.0.2:9/secret",
        "/odd": "http://[::1",
    }
    stop = threading.Event()
    seen: ClassVar[list[str]] = []

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name overridden
        pass

    def do_GET(self) -> None:
        self.seen.append(f"{self.headers['Host']} {self.path}")
        with suppress(OSError):
            if self.path in self.pages:
                self._send(*self.pages[self.path])
            elif self.path in self.redirects:
                self.send_response(302)
                self.send_header("Location", self.redirects[self.path])
                self.send_header("Content-Length", "0")
                self.end_headers()
            else:
                getattr(self, "page_" + self.path.strip("/"), self.page_missing)()

    def _send(self, kind: str, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        if kind:
            self.send_header("Content-Type", kind)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def page_missing(self) -> None:
        self._send("text/html", b"<p>not here", 404)

    def page_zipped(self) -> None:
        self._send("text/plain", gzip.compress(b"small"), Content_Encoding="gzip")

    def page_bomb(self) -> None:
        self._send("text/plain", gzip.compress(b"\n" * 30_000_000, 9), Content_Encoding="gzip")

    def page_brotli(self) -> None:
        self._send("text/plain", b"x", Content_Encoding="br")

    def page_broken(self) -> None:
        self._send("text/plain", b"\xff" * 50, Content_Encoding="deflate")

    def page_endless(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        self.close_connection = True
        while not self.stop.is_set():
            self.wfile.write(b"more and more\n" * 1000)

    def page_silent(self) -> None:
        self.close_connection = True
        self.stop.wait(LONG)

    def page_dripping(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        self.close_connection = True
        while not self.stop.wait(0.02):
            self.wfile.write(b".")

    def page_rude(self) -> None:
        self.close_connection = True
        self.wfile.write(b"\x00\x01 not http at all\r\n\r\n")

    def page_headers(self) -> None:
        self.close_connection = True
        self.wfile.write(b"HTTP/1.1 200 OK\r\n" + b"x-a: b\r\n" * 100_000)


class QuietServer(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is what these tests are about."""


@pytest.fixture
def site() -> Iterator[str]:
    server = QuietServer(("127.0.0.1", 0), Site)
    server.daemon_threads = False
    Site.stop.clear()
    Site.seen.clear()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://localhost:{server.server_address[1]}"
    Site.stop.set()
    server.shutdown()
    server.server_close()
    thread.join(LONG)


def fetch(calls: Calls, url: str, **limits: float) -> str:
    return calls.run(PageFetcher(**limits).tool(), url=url).text  # type: ignore[arg-type]


def test_a_page_becomes_readable_text_with_its_links(calls: Calls, site: str) -> None:
    assert fetch(calls, f"{site}/html#part") == (
        f"{site}/html#part\nThe Title\n\n# Head\n\nOne [two & three]({site}/two#x) four\n\n- a\n- b\n\n"
        "x\n  y\n\n | 1 | 2\n\nclick"
    )


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/plain", "grün"),
        ("/latin", "grün"),
        ("/lies", "gr\ufffdn"),
        ("/nonsense", "grün"),
        ("/hex", "6162"),
        ("/meta", "Привет"),
        ("/utf16", "grün"),
        ("/json", '{"a": 1}'),
        ("/untyped", "just text"),
        ("/empty", "(no text)"),
        ("/zipped", "small"),
    ],
)
def test_texts_are_read_in_their_encoding(calls: Calls, site: str, path: str, text: str) -> None:
    assert fetch(calls, site + path) == f"{site}{path}\n\n{text}"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/image", "is image/png, not text"),
        ("/binary", "is binary data"),
        ("/missing", "answered 404.*not here"),
        ("/circle", "redirected more than 5 times"),
        ("/file", "begins with http"),
        ("/odd", "can't be fetched|not the address"),
        ("/brotli", "packed as br"),
        ("/broken", "can't be fetched"),
        ("/rude", "can't be fetched"),
        ("/headers", "can't be fetched"),
    ],
)
def test_what_is_no_page_is_told(calls: Calls, site: str, path: str, said: str) -> None:
    with pytest.raises(ToolFailed, match=f"(?s){said}"):
        fetch(calls, site + path)


@pytest.mark.parametrize("path", ["/endless", "/bomb"])
def test_a_page_that_never_ends_is_read_up_to_the_limit(calls: Calls, site: str, path: str) -> None:
    text = fetch(calls, site + path, largest=100_000)
    assert text.endswith("[only the first 100000 bytes of the page were read]")
    assert len(text) < 101_000


@pytest.mark.parametrize("path", ["/silent", "/dripping"])
def test_a_page_that_takes_too_long_is_given_up(calls: Calls, site: str, path: str) -> None:
    with pytest.raises(ToolFailed, match=r"took more than 0\.3 s|can't be fetched"):
        fetch(calls, site + path, seconds=0.3)


def test_a_private_address_is_fetched_only_when_a_person_says_so(calls: Calls, site: str) -> None:
    calls.person.yes = False
    with pytest.raises(ToolFailed, match="not on the open internet, and the person did not allow"):
        fetch(calls, f"{site}/plain")
    assert Site.seen == []
    (asked,) = calls.person.asked
    assert (asked.kind, asked.subject) == ("fetch", f"{site}/plain")
    assert "127.0.0.1" in asked.reason or "::1" in asked.reason


def test_every_redirect_is_checked_anew(calls: Calls, site: str) -> None:
    assert "grün" in fetch(calls, f"{site}/moved")
    assert [each.subject for each in calls.person.asked] == [f"{site}/moved", f"{site}/plain"]
    calls.person.asked.clear()
    with pytest.raises(ToolFailed, match="can't be reached"):
        fetch(calls, f"{site}/inner")
    assert calls.person.asked[-1].subject == "http://127.0.0.2:9/secret"


def test_the_connection_goes_to_the_checked_address_under_the_pages_own_name(site: str) -> None:
    port = site.rpartition(":")[2]
    target = Target(parse(f"http://rebound.invalid:{port}/plain"), ("127.0.0.1",))
    page = finish(PageFetcher().get(target))
    assert isinstance(page, Page)
    assert page.body.decode() == "grün"
    assert Site.seen == [f"rebound.invalid:{port} /plain"]


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "169.254.169.254", "0.0.0.1", "100.64.0.1"),
        *("::1", "::", "fe80::1", "fc00::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1"),
        *("2002:7f00:1::", "224.0.0.1", "255.255.255.255", "ff02::1", "198.18.0.1"),
        *(
            "::127.0.0.1",
            "::8.8.8.8",
            "64:ff9b:1::7f00:1",
            "64:ff9b:1::808:808",
            "fec0::1",
            "::ffff:0:7f00:1",
        ),
        *("0.0.0.1", "100.64.0.1", "192.0.0.9", "192.0.2.1", "192.88.99.1", "203.0.113.1", "240.0.0.1"),
        *("2001:0:808:808::1", "2001:db8::1", "3fff::1", "2001:2::1", "100::1", "5f00::1", "4000::1"),
        *("2606:2800:220:1::5efe:7f00:1", "2606:2800:220:1:200:5efe:a00:1", "2606:2800:220:1::1%eth0"),
    ],
)
@pytest.mark.clause("S4")
def test_addresses_that_are_not_of_the_open_internet(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address",
    ["93.184.216.34", "2606:2800:220:1::1", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"],
)
def test_addresses_of_the_open_internet(address: str) -> None:
    assert is_public(address)


def wrapped(inner: ipaddress.IPv4Address) -> list[ipaddress.IPv6Address]:
    """Every form of IPv6 address that leads to an IPv4 address, or may."""
    number = int(inner)
    prefixes = ("::", "::ffff:0:0", "::ffff:0:0:0", "64:ff9b::", "64:ff9b:1::", "2606:2800:220:1::5efe:0:0")
    found = [int(ipaddress.IPv6Address(each)) | number for each in prefixes]
    found.append(0x2002 << 112 | number << 80 | 1)
    found.append(0x2001_0000 << 96 | number << 64 | number ^ 0xFFFF_FFFF)
    return [ipaddress.IPv6Address(each) for each in found]


@pytest.mark.clause("S4")
@given(st.ip_addresses(v=4))
def test_no_form_of_an_address_is_public_when_the_address_is_not(inner: ipaddress.IPv4Address) -> None:
    if not is_public(str(inner)):
        assert [each for each in wrapped(inner) if is_public(str(each))] == []


@pytest.mark.clause("S4")
@given(st.ip_addresses())
def test_what_is_public_is_so_for_python_too(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if is_public(str(address)):
        # Python's word on 6to4 differs between its versions; we go by the address within.
        bare = getattr(address, "ipv4_mapped", None) or getattr(address, "sixtofour", None) or address
        assert bare in NAT64 or (bare.is_global and not bare.is_multicast and not bare.is_reserved)


@pytest.mark.clause("X5")
def test_names_that_hang_take_none_of_the_threads_that_tools_run_on(calls: Calls) -> None:
    gate, asked = threading.Event(), []

    def hang(host: str, *_: object) -> list[AddressInfo]:
        asked.append(host)
        gate.wait()
        return []

    web = PageFetcher(names=NameLookup(hang))

    async def scenario() -> int:
        context = calls.context()
        fetching = [
            asyncio.create_task(web.fetch_page(f"http://hang{number}.example/", context))
            for number in range(20)
        ]
        await until(lambda: len(asked) == 20)
        done = await context.off_loop(len, "four")
        for each in fetching:
            each.cancel()
        return int(done)

    try:
        assert finish(scenario()) == 4
    finally:
        gate.set()


@pytest.mark.parametrize(
    "host",
    [
        *("2130706433", "0x7f000001", "127.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0", "0177.0.0.1"),
        *("[::127.0.0.1]", "[64:ff9b:1::7f00:1]", "[fec0::1]", "[::ffff:0:7f00:1]", "①②⑦.0.0.1", "0x7f.1"),
    ],
)
def test_other_spellings_of_this_machine_are_private_too(host: str) -> None:
    try:
        target = asyncio.run(resolve(parse(f"http://{host}/"), NameLookup()))
    except ToolFailed:
        return
    assert target.private is not None


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "example.com",
            "ftp://example.com/",
            "file:///etc/passwd",
            "javascript:1",
            "http://",
            "http:///x",
        ),
        *("http://user:pw@example.com/", "http://exa mple.com/", "http://[::1", "http://example.com:99999/"),
        *(
            "http://example.com:0/",
            "http://" + "x" * 5000,
            "http://\ud800/",
            "data:text/html,x",
            "http://\x00/",
        ),
    ],
)
def test_what_is_no_address_of_a_page_is_refused(url: str) -> None:
    with pytest.raises(ToolFailed):
        parse(url)


def test_a_host_that_does_not_exist_is_told(calls: Calls) -> None:
    with pytest.raises(ToolFailed, match="can't be found"):
        fetch(calls, "http://no-such-host.invalid/")


async def packed() -> AsyncIterator[bytes]:
    yield gzip.compress(b"x" * 50_000_000)


def test_a_packed_page_is_unpacked_in_small_pieces() -> None:
    async def main() -> list[int]:
        answer = httpx2.Response(200, headers={"content-encoding": "gzip"}, content=packed())
        return [len(piece) async for piece in unpacked(answer)]

    sizes = finish(main())
    assert sum(sizes) == 50_000_000
    assert max(sizes) <= 65_536


def test_a_parsed_address_is_kept_as_it_is() -> None:
    assert parse(" https://example.com/ä?b=c ") == httpx2.URL("https://example.com/ä?b=c")
