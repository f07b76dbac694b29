"""What a wide window shows beside the conversation can be seen and chosen on a phone too."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.web.page.browser_page import say, see_answer
from tests.web.page.gated_model import GatedModel
from tests.web.page.web_server import WebServer

pytestmark = pytest.mark.slow


@pytest.fixture
def phone(chromium: Browser, server: WebServer) -> Iterator[Page]:
    """A tab on a phone, signed in."""
    context = chromium.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(server.link)
    yield page
    context.close()


def test_model_workspace_and_tools_are_chosen_for_a_new_chat_and_seen(
    phone: Page, model: GatedModel, server: WebServer
) -> None:
    model.models = ["gated", "other"]
    dialog = phone.get_by_role("dialog")
    phone.get_by_role("button", name="Model: gated").tap()
    dialog.get_by_role("button", name=re.compile("^other")).tap()
    phone.get_by_role("button", name="Tools: all").tap()
    dialog.get_by_role("button", name=re.compile("^small five tools")).tap()
    phone.get_by_role("button", name=re.compile("^Workspace: ")).tap()
    dialog.get_by_label("Folder of the list").fill("Pocket")
    dialog.get_by_role("button", name="Save").tap()
    expect(dialog).to_have_count(0)
    model.will_answer("Small and other.")
    say(phone, "from a phone")
    see_answer(phone, "Small and other.")
    assert model.asked[0]["model"] == "other"
    expect(phone.get_by_role("button", name="Model: other")).to_be_in_viewport(ratio=1)
    expect(phone.get_by_role("button", name="Tools: small")).to_be_in_viewport(ratio=1)
    place = phone.get_by_role("button", name=re.compile("^Workspace: "))
    expect(place).to_be_in_viewport(ratio=1)
    expect(place).to_contain_text("Pocket")
    for name in ("Model: other", "Tools: small"):
        whole = "each => each.scrollWidth <= each.clientWidth"
        assert phone.get_by_role("button", name=name).evaluate(whole), "of these three the path is cut first"
    assert not phone.evaluate("document.documentElement.scrollWidth > innerWidth")


def test_the_palette_is_opened_by_a_button(phone: Page) -> None:
    phone.get_by_role("button", name="Conversations", exact=True).tap()
    phone.get_by_role("button", name="Do something").tap()
    phone.get_by_role("combobox", name="What to do").fill("keys")
    phone.get_by_role("option", name=re.compile("Show this list of keys")).tap()
    expect(phone.get_by_role("dialog", name="Keyboard")).to_be_visible()
