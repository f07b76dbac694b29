"""Prompts of one's own are changed and removed, and a name that another has is not lost."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.web.page.browser_page import composer
from tests.web.page.web_server import WebServer

pytestmark = pytest.mark.slow


def test_a_prompt_is_changed_renamed_and_removed(page: Page, server: WebServer) -> None:
    for name, text in (("Review", "Read it twice."), ("Plan", "First a plan.")):
        assert page.request.put(f"{server.url}api/prompts/{name}", data={"text": text}).ok
    expect(composer(page)).to_be_focused()
    page.get_by_role("button", name="Prompts of your own").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Change Review").click()
    expect(dialog.get_by_label("Text")).to_have_value("Read it twice.")
    dialog.get_by_label("Text").fill("Read it three times.")
    dialog.get_by_label("Name").fill("Careful / review")
    dialog.get_by_role("button", name="Keep").click()
    kept = dialog.get_by_role("list", name="Prompts").get_by_role("listitem")
    expect(kept).to_have_count(2)
    expect(kept.first).to_contain_text("Careful / review")
    dialog.get_by_role("button", name="Change Plan").click()
    dialog.get_by_label("Text").fill("never kept")
    dialog.get_by_role("button", name="Cancel").click()
    expect(kept.last).to_contain_text("First a plan.")
    dialog.get_by_role("button", name="Remove Plan").click()
    expect(kept).to_have_text([re.compile("Read it three times.")])
    dialog.get_by_role("button", name=re.compile("^Careful")).click()
    expect(composer(page)).to_have_value("Read it three times.")
    items = page.request.get(f"{server.url}api/prompts").json()["items"]
    assert [each["name"] for each in items] == ["Careful / review"]
