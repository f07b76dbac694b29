"""What a person does on the page and sees of it, in the words of the tests."""

from playwright.sync_api import Locator, Page, expect


def composer(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Message", exact=True)


def say(page: Page, text: str) -> None:
    """Write and send; returns when the server has stored it."""
    composer(page).fill(text)
    composer(page).press("Enter")
    expect(composer(page)).to_have_value("")


def answers(page: Page) -> Locator:
    return page.get_by_role("article", name="Holdfast")


def said(page: Page) -> Locator:
    return page.get_by_role("article", name="You")


def see_answer(page: Page, text: str) -> None:
    """The last answer holds the text."""
    expect(answers(page).last).to_contain_text(text)


def see_idle(page: Page) -> None:
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)


def entries(page: Page) -> Locator:
    """The conversations in the list."""
    return page.get_by_role("navigation").locator("li.entry")


def menu(page: Page, title: str, item: str) -> None:
    """Choose an item of the menu of a conversation in the list."""
    entries(page).filter(has_text=title).first.hover()
    page.get_by_role("button", name=f"More for {title}").first.click()
    page.get_by_role("menuitem", name=item).click()


def session_id(page: Page) -> str:
    return page.url.rsplit("/s/", 1)[1].split("/")[0]
