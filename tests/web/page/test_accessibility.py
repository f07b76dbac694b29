"""The page by keyboard alone, for screen readers, on a phone, and in both colour schemes."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.web.page.browser_page import answers, composer, entries, said, say, see_answer, see_idle
from tests.web.page.gated_model import Call, Gate, GatedModel, Refusal
from tests.web.page.web_server import WebServer

pytestmark = pytest.mark.slow

RICH = """# A heading

Text with `code`, [a link](https://example.org) and $x^2$.

| a | b |
|---|---|
| 1 | 2 |

```python
def f() -> int:
    return 1  # one
```

> A quotation
"""


def focused(page: Page) -> str:
    return str(
        page.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.innerText")
    )


def find_by_palette(page: Page, words: str) -> None:
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name="What to do")).to_be_focused()
    page.keyboard.type(words)
    page.keyboard.press("Enter")


def test_everything_can_be_done_by_keyboard(page: Page, model: GatedModel, server: WebServer) -> None:
    keys = page.keyboard
    gate = Gate()
    model.will_answer(
        "An answer.",
        [Call("run_command", {"command": "touch typed.txt"})],
        "Made.",
        ["Long ", gate],
        "Edited.",
    )
    expect(composer(page)).to_be_focused()
    keys.type("hello")
    keys.press("Enter")
    see_answer(page, "An answer.")
    see_idle(page)
    keys.type("make a file")
    keys.press("Enter")
    card = page.get_by_role("region", name="The agent asks for your approval")
    expect(card).to_be_focused()
    expect(card.get_by_text("y", exact=True)).to_be_visible()
    keys.press("y")
    see_answer(page, "Made.")
    see_idle(page)
    assert (server.project / "typed.txt").exists()
    expect(composer(page)).to_be_focused()
    keys.type("go on and on")
    keys.press("Enter")
    see_answer(page, "Long")
    keys.press("Control+.")
    see_idle(page)
    keys.press("Escape")
    keys.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    keys.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    keys.press("m")
    expect(page.get_by_role("complementary", name="Memory")).to_be_focused()
    keys.press("Escape")
    expect(page.get_by_role("complementary")).to_have_count(0)
    keys.press("e")
    expect(composer(page)).to_have_value("go on and on")
    expect(composer(page)).to_be_focused()
    keys.press("Control+a")
    keys.type("be brief")
    keys.press("Enter")
    see_answer(page, "Edited.")
    keys.press("Escape")
    keys.press("n")
    expect(page.get_by_role("heading", name="What shall we do?")).to_be_visible()
    expect(composer(page)).to_be_focused()
    find_by_palette(page, "search all")
    expect(page.get_by_role("searchbox", name="Search all conversations")).to_be_focused()
    keys.type("brief")
    expect(page.locator(".hits a").first).to_be_visible()
    keys.press("Tab")
    keys.press("Enter")
    expect(page.locator(".cell.found")).to_contain_text("be brief")


def test_the_list_and_its_menu_work_by_keyboard(page: Page, model: GatedModel) -> None:
    keys = page.keyboard
    model.will_answer("A.", "B.")
    say(page, "older talk")
    see_answer(page, "A.")
    page.get_by_role("button", name="New chat").first.click()
    say(page, "newer talk")
    see_answer(page, "B.")
    entries(page).filter(has_text="newer talk").get_by_role("link").focus()
    keys.press("ArrowDown")
    expect(entries(page).filter(has_text="older talk").get_by_role("link")).to_be_focused()
    keys.press("Enter")
    see_answer(page, "A.")
    entries(page).filter(has_text="older talk").get_by_role("link").focus()
    keys.press("Tab")
    expect(page.get_by_role("button", name="More for older talk")).to_be_focused()
    keys.press("Enter")
    expect(page.get_by_role("menuitem", name="Rename")).to_be_focused()
    keys.press("ArrowDown")
    expect(page.get_by_role("menuitem", name="Pin")).to_be_focused()
    keys.press("Escape")
    expect(page.get_by_role("button", name="More for older talk")).to_be_focused()


def findings(page: Page) -> list[str]:
    """What axe objects to, but for what it calls minor."""
    found = Axe().run(page).response["violations"]
    return [
        f"{each['id']} ({each['impact']}): {node['html'][:160]} — {node['failureSummary'][:200]}"
        for each in found
        if each["impact"] != "minor"
        for node in each["nodes"][:3]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(chromium: Browser, server: WebServer, model: GatedModel, scheme: str) -> None:
    context = chromium.new_context(color_scheme="dark" if scheme == "dark" else "light")
    try:
        page = context.new_page()
        page.goto(server.link)
        expect(composer(page)).to_be_visible()
        assert findings(page) == []
        gate = Gate()
        model.will_answer(
            RICH,
            [Refusal(401, "wrong key")],
            ["Working ", gate, Call("run_command", {"command": "rm -rf things"})],
            "Done.",
        )
        say(page, "show me everything")
        see_answer(page, "A quotation")
        see_idle(page)
        expect(answers(page).last.locator("math")).to_be_visible()
        assert findings(page) == []
        say(page, "fail")
        expect(page.get_by_text("The turn failed")).to_be_visible()
        assert findings(page) == []
        say(page, "work")
        see_answer(page, "Working")
        say(page, "and this later")
        expect(page.get_by_role("region", name="Messages that wait")).to_be_visible()
        gate.open()
        expect(page.get_by_role("region", name="The agent asks for your approval")).to_be_visible()
        assert findings(page) == []
        page.get_by_role("button", name="Memory").click()
        expect(page.get_by_role("list", name="Providers")).to_be_visible()
        assert findings(page) == []
        page.get_by_role("button", name="Keyboard shortcuts").click()
        expect(page.get_by_role("dialog")).to_be_visible()
        assert findings(page) == []
    finally:
        context.close()


def test_a_phone_shows_the_conversation_and_opens_the_list(
    chromium: Browser, server: WebServer, model: GatedModel
) -> None:
    context = chromium.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    try:
        page = context.new_page()
        page.goto(server.link)
        model.will_answer(RICH)
        say(page, "hello from a phone")
        see_answer(page, "A quotation")
        expect(page.get_by_role("navigation", name="Conversations")).to_be_hidden()
        wide = page.evaluate("document.documentElement.scrollWidth > innerWidth")
        assert not wide, "the page is wider than the phone"
        page.get_by_role("button", name="Conversations", exact=True).tap()
        expect(entries(page).filter(has_text="hello from a phone").first).to_be_in_viewport()
        page.get_by_role("button", name="Close the list").tap(position={"x": 370, "y": 400})
        expect(page.get_by_role("navigation", name="Conversations")).to_be_hidden()
        assert findings(page) == []
    finally:
        context.close()


def test_the_system_decides_between_light_and_dark(chromium: Browser, server: WebServer) -> None:
    shades = []
    for scheme in ("light", "dark"):
        context = chromium.new_context(color_scheme="dark" if scheme == "dark" else "light")
        page = context.new_page()
        page.goto(server.link)
        shades.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        context.close()
    light, dark = (sum(map(int, re.findall(r"\d+", shade)[:3])) for shade in shades)
    assert light > 600
    assert dark < 150


def test_a_screen_reader_hears_who_speaks_and_what_happens(page: Page, model: GatedModel) -> None:
    gate = Gate()
    model.will_answer(["Working ", gate, "done."])
    say(page, "hello")
    see_answer(page, "Working")
    expect(page.get_by_role("status").filter(has_text="Answering")).to_be_visible()
    expect(said(page)).to_have_count(1)
    gate.open()
    see_idle(page)
    expect(page.get_by_role("log", name="Conversation")).to_be_visible()
    expect(page.get_by_role("main")).to_be_visible()
    assert focused(page) == "Message"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_what_opens_beside_and_above_a_conversation(
    chromium: Browser, server: WebServer, model: GatedModel, scheme: str
) -> None:
    context = chromium.new_context(color_scheme="dark" if scheme == "dark" else "light")
    try:
        page = context.new_page()
        page.goto(server.link)
        drawn = "```csv\nname,age\nAda,36\n```\n\n```python\nprint(1)  # one\n```\n"
        model.will_answer([Call("write_file", {"path": f"{scheme}.txt", "text": "one\n"})], drawn)
        say(page, "work with marmalade")
        expect(answers(page).last.locator(".code")).to_have_count(2)
        see_idle(page)
        for opener, name in (("Timeline", "Timeline"), ("Context", "Context")):
            page.get_by_role("button", name=re.compile(f"^{opener}")).last.click()
            expect(page.get_by_role("complementary", name=name)).to_be_visible()
            expect(page.locator(".panel .loading")).to_have_count(0)
            assert findings(page) == []
            page.get_by_role("button", name=f"Close {name}").click()
        page.get_by_role("button", name="More for this conversation").click()
        expect(page.get_by_role("menu")).to_be_visible()
        assert findings(page) == []
        page.get_by_role("menuitem", name="Delete…").click()
        expect(page.get_by_role("menuitem", name="Delete for good")).to_be_visible()
        assert findings(page) == []
        page.keyboard.press("Escape")
        for button, name in (("Preview", "Preview, csv"), ("Expand", "Code, python")):
            page.get_by_role("button", name=button).last.click()
            expect(page.get_by_role("dialog", name=name)).to_be_visible()
            assert findings(page) == []
            page.get_by_role("button", name="Close", exact=True).click()
        page.get_by_role("button", name="Branch").last.click()
        expect(page.locator(".head").get_by_role("link")).to_be_visible()
        expect(page.locator(".toast")).to_be_visible()
        assert findings(page) == []
        page.get_by_role("searchbox", name="Search all conversations").fill("marmalade")
        expect(page.locator(".hits a mark").first).to_be_visible()
        assert findings(page) == []
    finally:
        context.close()


@pytest.mark.parametrize("kind", ["wide", "phone"])
def test_dialogs_and_panels_are_for_everybody_by_keyboard(
    chromium: Browser, server: WebServer, model: GatedModel, kind: str
) -> None:
    phone = kind == "phone"
    size: ViewportSize = {"width": 390, "height": 844} if phone else {"width": 1280, "height": 800}
    context = chromium.new_context(viewport=size, has_touch=phone, color_scheme="dark" if phone else "light")
    try:
        page = context.new_page()
        page.goto(server.link)
        edit = Call("write_file", {"path": "seen.txt", "text": "one\n"})
        tasks = Call("todo", {"items": [{"text": "look", "state": "done"}]})
        model.will_answer([tasks, edit], RICH)
        say(page, "work a little")
        see_answer(page, "A quotation")
        see_idle(page)
        assert findings(page) == []
        for key, name in (
            ("l", "Model for"),
            ("p", "Prompts"),
            ("f", "Where this"),
            ("o", "Tools"),
            ("b", "Folders"),
            ("z", "Take back"),
        ):
            page.locator(".scroll").focus()
            page.keyboard.press(key)
            expect(page.get_by_role("dialog", name=re.compile(name))).to_be_visible()
            assert findings(page) == []
            page.keyboard.press("Escape")
            expect(page.get_by_role("dialog")).to_have_count(0)
        page.keyboard.press("Control+k")
        expect(page.get_by_role("listbox")).to_be_visible()
        assert findings(page) == []
        page.keyboard.press("Escape")
        for key, name in (("s", "Settings"), ("u", "Usage"), ("d", "Files changed")):
            page.locator(".scroll").focus()
            page.keyboard.press(key)
            expect(page.get_by_role("complementary", name=re.compile(name))).to_be_visible()
            assert findings(page) == []
            assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
            page.keyboard.press("Escape")
        context.clear_cookies()
        page.goto(f"{server.url}?token=wrong")
        expect(page.get_by_label("Token")).to_be_focused()
        assert findings(page) == []
    finally:
        context.close()
