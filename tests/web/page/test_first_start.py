"""A server without a model starts, and the page says what is missing."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.web.page.browser_page import said, say
from tests.web.page.web_server import WebServer

pytestmark = pytest.mark.slow


@pytest.fixture
def server_without_a_model(tmp_path: Path) -> Iterator[WebServer]:
    """OpenAI is chosen, and there is no key for it."""
    nothing = {"HOLDFAST_MODEL_API_KEY": "", "HOLDFAST_MODEL_NAME": ""}
    server = WebServer(tmp_path, "", **nothing).start()
    yield server
    server.stop()


def test_the_page_says_what_is_missing_and_keeps_what_is_said(
    context: BrowserContext, server_without_a_model: WebServer
) -> None:
    page = context.new_page()
    page.goto(server_without_a_model.link)
    expect(
        page.get_by_text("There is no language model: openai needs a key: set OPENAI_API_KEY")
    ).to_be_visible()
    say(page, "are you there?")
    failed = page.get_by_role("alert").filter(has_text="The turn failed")
    expect(failed).to_contain_text("openai needs a key")
    expect(failed).to_contain_text("Your message and the work so far are kept.")
    expect(said(page)).to_contain_text(["are you there?"])
