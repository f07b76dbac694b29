"""Fixtures for the page: a browser and a server for each file; a tab for each test."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, expect

from tests.web.page.chromium import a_browser, with_windows
from tests.web.page.gated_model import GatedModel
from tests.web.page.web_server import WebServer

PATIENCE_MS = 90_000
LOOPBACK = {"127.0.0.1", "localhost", "::1"}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Closed after each file: while its driver is open, no other test of the process can run a loop."""
    expect.set_options(timeout=PATIENCE_MS)
    with a_browser() as browser:
        yield browser


@pytest.fixture(scope="session")
def _model() -> Iterator[GatedModel]:
    with GatedModel() as model:
        yield model


@pytest.fixture
def model(_model: GatedModel) -> Iterator[GatedModel]:
    """The model, with an empty script."""
    _model.begin_anew()
    yield _model
    _model.begin_anew()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, _model: GatedModel) -> Iterator[WebServer]:
    """One server for the tests of a file: starting it is what takes the longest."""
    server = WebServer(tmp_path_factory.mktemp("web"), _model.url).start()
    yield server
    server.stop()


@pytest.fixture
def own_server(tmp_path: Path, _model: GatedModel) -> Iterator[WebServer]:
    """A server that a test may kill."""
    server = WebServer(tmp_path, _model.url).start()
    yield server
    server.kill()


@pytest.fixture
def asking_server(tmp_path: Path, _model: GatedModel) -> Iterator[WebServer]:
    """The same, set to leave it to a person what becomes of a turn that was cut off."""
    server = WebServer(tmp_path, _model.url, HOLDFAST_HOST_AFTER_CRASH="ask").start()
    yield server
    server.kill()


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    """A browser of one person. Whatever leaves loopback, or goes wrong in a script, fails the test."""
    yield from watched_context(chromium)


@pytest.fixture
def context_with_windows(chromium: Browser) -> Iterator[BrowserContext]:
    """The same, in a browser that shows notifications."""
    with with_windows(chromium) as browser:
        yield from watched_context(browser)


def watched_context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(PATIENCE_MS)
    left: list[str] = []
    wrong: list[str] = []

    def look(request: Request) -> None:
        if (
            urlsplit(request.url).scheme in ("http", "https")
            and urlsplit(request.url).hostname not in LOOPBACK
        ):
            left.append(request.url)

    context.on("request", look)
    context.on("weberror", lambda error: wrong.append(str(error.error)))
    yield context
    context.close()
    assert not left, f"requests left this machine: {left}"
    assert not wrong, f"the page's script failed: {wrong}"


@pytest.fixture
def page(context: BrowserContext, server: WebServer) -> Page:
    """A tab that was opened with the link that the command printed."""
    page = context.new_page()
    page.goto(server.link)
    return page
