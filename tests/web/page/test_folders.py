"""Folders of the list: they are renamed and removed, and any conversation of the list is moved."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.web.page.browser_page import entries, menu, say, see_answer
from tests.web.page.gated_model import GatedModel
from tests.web.page.web_server import WebServer

pytestmark = pytest.mark.slow


def test_a_conversation_that_is_not_open_is_moved_and_its_folder_renamed_and_removed(
    page: Page, model: GatedModel, server: WebServer
) -> None:
    dialog = page.get_by_role("dialog")
    model.will_answer("Yes.", "No.")
    say(page, "about beans")
    see_answer(page, "Yes.")
    page.get_by_role("button", name="New chat").first.click()
    say(page, "about roofs")
    see_answer(page, "No.")
    menu(page, "about beans", "Workspace and folder…")
    expect(dialog.get_by_role("heading")).to_have_text("Where “about beans” works")
    dialog.get_by_label("Folder of the list").fill("Garden")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("button", name=re.compile("^Workspace: "))).not_to_contain_text("Garden")
    page.get_by_label("Folder", exact=True).select_option("Garden")
    expect(entries(page)).to_have_text([re.compile("about beans")])
    page.get_by_role("button", name="Change the folders").click()
    dialog.get_by_role("button", name="Change Garden").click()
    dialog.get_by_label("Name").fill("Beds / south")
    dialog.get_by_label("New conversations work in").fill(str(server.project))
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("listitem")).to_have_text([re.compile("south.*1 conversation.*project")])
    page.keyboard.press("Escape")
    expect(page.get_by_label("Folder", exact=True)).to_have_value("Beds / south")
    expect(entries(page)).to_have_text([re.compile("about beans")])
    page.locator(".scroll").focus()
    page.keyboard.press("b")
    dialog.get_by_role("button", name="Remove Beds / south").click()
    dialog.get_by_role("button", name="Remove the folder").click()
    expect(dialog).to_contain_text("There is none yet.")
    page.keyboard.press("Escape")
    expect(entries(page)).to_have_count(2)
    expect(page.get_by_label("Folder", exact=True)).to_have_count(0)
