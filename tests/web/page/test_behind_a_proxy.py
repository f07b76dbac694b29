"""The page behind a real proxy with TLS, set up as the document says, in a real browser."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.web.page.browser_page import answers, entries, say, see_answer, see_idle
from tests.web.page.chromium import a_browser
from tests.web.page.conftest import PATIENCE_MS
from tests.web.page.gated_model import Gate, GatedModel
from tests.web.page.proxy_servers import NAME, caddy, nginx
from tests.web.page.web_server import WebServer

pytestmark = pytest.mark.slow

PROXIES = {"nginx": nginx, "caddy": caddy}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser for which the proxy's name leads to this machine."""
    expect.set_options(timeout=PATIENCE_MS)
    with a_browser(f"--host-resolver-rules=MAP {NAME} 127.0.0.1") as browser:
        yield browser


@contextmanager
def opened(chromium: Browser, server: WebServer, port: int, prefix: str) -> Iterator[Page]:
    """The page by the link that was printed for the proxy, with the proxy's port."""
    link = urlsplit(server.more_links()[0])
    assert (link.scheme, link.netloc, link.path) == ("https", NAME, f"{prefix}/")
    context = chromium.new_context(ignore_https_errors=True, viewport={"width": 1280, "height": 800})
    context.set_default_timeout(PATIENCE_MS)
    wrong: list[str] = []
    context.on("weberror", lambda error: wrong.append(str(error.error)))
    page = context.new_page()
    page.on("response", lambda got: wrong.append(f"{got.status} {got.url}") if got.status >= 400 else None)
    page.goto(link._replace(netloc=f"{NAME}:{port}").geturl())
    yield page
    context.close()
    assert not wrong


@pytest.mark.parametrize("prefix", ["", "/holdfast"])
@pytest.mark.parametrize("proxy", ["nginx", "caddy"])
def test_the_page_talks_and_streams_through_the_proxy(
    chromium: Browser, tmp_path: Path, model: GatedModel, proxy: str, prefix: str
) -> None:
    server = WebServer(
        tmp_path,
        model.url,
        HOLDFAST_WEB_ALLOWED_HOSTS=NAME,
        HOLDFAST_WEB_TRUSTED_PROXIES="127.0.0.1",
        HOLDFAST_WEB_ROOT_PATH=prefix,
    ).start()
    try:
        with (
            PROXIES[proxy](tmp_path, prefix, server.port) as port,
            opened(chromium, server, port, prefix) as page,
        ):
            gate = Gate()
            model.will_answer(["It comes ", gate, "in pieces."], "Second.")
            say(page, "hi")
            # The model has not said the rest: what is seen has come through the proxy as it was said.
            see_answer(page, "It comes")
            expect(answers(page).last).not_to_contain_text("in pieces.")
            gate.open()
            see_answer(page, "It comes in pieces.")
            see_idle(page)
            address = page.url
            assert urlsplit(address).path == f"{prefix}/"
            page.reload()
            see_answer(page, "It comes in pieces.")
            say(page, "more")
            see_answer(page, "Second.")
            expect(entries(page)).to_have_count(1)
            [cookie] = page.context.cookies()
            assert (cookie["secure"], cookie["path"]) == (True, prefix or "/")
            with page.expect_download() as saved:
                entries(page).first.hover()
                entries(page).first.get_by_role("button").click()
                page.get_by_role("menuitem", name="Export to import elsewhere").click()
            assert "It comes in pieces." in Path(saved.value.path()).read_text(encoding="utf-8")
            if prefix:
                page.goto(f"https://{NAME}:{port}{prefix}")
                expect(entries(page)).to_have_count(1)
    finally:
        server.stop()
