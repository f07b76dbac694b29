"""The page as an app, and without a connection: what it says and keeps, and what it sends afterwards."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, Route, expect

from tests.web.page.browser_page import composer, said, say, see_answer, see_idle
from tests.web.page.chromium import FLAGS, path_of_one_with_windows
from tests.web.page.gated_model import GatedModel
from tests.web.page.web_server import WebServer

pytestmark = pytest.mark.slow
GONE = "The server can't be reached"


def held(page: Page) -> Locator:
    """What the composer says of a message that waits for the connection."""
    return page.get_by_role("alert").filter(has_text="Not sent yet.")


def banner(page: Page) -> Locator:
    return page.get_by_role("status").filter(has_text=GONE)


def opened(context: BrowserContext, server: WebServer) -> Page:
    page = context.new_page()
    page.goto(server.link)
    return page


def test_the_browser_has_no_objection_to_installing_it(
    chromium: Browser, server: WebServer, tmp_path: Path
) -> None:
    # Nothing can be installed from a private window, so it has a profile; and a headless shell does not look.
    context = chromium.browser_type.launch_persistent_context(
        tmp_path / "profile", executable_path=path_of_one_with_windows(), args=FLAGS
    )
    try:
        page = opened(context, server)
        expect(composer(page)).to_be_visible()
        browser = context.new_cdp_session(page)
        assert browser.send("Page.getInstallabilityErrors")["installabilityErrors"] == []
        manifest = browser.send("Page.getAppManifest")
        assert manifest["errors"] == []
        assert manifest["manifest"]["name"] == "Holdfast"
        assert browser.send("Page.getManifestIcons")["primaryIcon"]
    finally:
        context.close()


def test_a_message_that_was_entered_without_a_connection_is_sent_once_when_it_is_back(
    page: Page, context: BrowserContext, model: GatedModel
) -> None:
    model.will_answer("Hello.", "Here again.")
    say(page, "first")
    see_answer(page, "Hello.")
    see_idle(page)
    context.set_offline(True)
    expect(banner(page)).to_contain_text(f"{GONE}: this device is offline.")
    composer(page).fill("written on a train")
    composer(page).press("Enter")
    expect(held(page)).to_be_visible()
    expect(composer(page)).to_have_value("written on a train")
    context.set_offline(False)
    see_answer(page, "Here again.")
    see_idle(page)
    expect(composer(page)).to_have_value("")
    expect(held(page)).to_have_count(0)
    expect(banner(page)).to_have_count(0)
    expect(said(page)).to_have_text([re.compile("^first"), re.compile("^written on a train")])
    assert len(model.asked) == 2


def test_the_first_message_of_a_chat_waits_for_a_server_that_was_killed(
    context: BrowserContext, model: GatedModel, own_server: WebServer
) -> None:
    model.will_answer("Begun.")
    page = opened(context, own_server)
    expect(composer(page)).to_be_focused()
    own_server.kill()
    expect(banner(page)).to_be_visible()
    composer(page).fill("begin with this")
    composer(page).press("Enter")
    expect(held(page)).to_be_visible()
    own_server.start()
    see_answer(page, "Begun.")
    see_idle(page)
    expect(said(page)).to_have_count(1)
    assert len(model.asked) == 1


def test_a_message_that_a_proxy_can_not_hand_on_is_sent_once_a_little_later(
    page: Page, model: GatedModel
) -> None:
    model.will_answer("Hello.", "Here again.")
    say(page, "first")
    see_answer(page, "Hello.")
    see_idle(page)
    keys: list[str] = []

    def refuse_first(route: Route) -> None:
        keys.append(str((route.request.post_data_json or {})["key"]))
        if len(keys) > 1:
            route.continue_()
        else:
            route.fulfill(status=502, body="Bad Gateway")

    page.route("**/send", refuse_first)
    composer(page).fill("once more")
    composer(page).press("Enter")
    expect(held(page)).to_contain_text("when the server takes it")
    see_answer(page, "Here again.")
    expect(held(page)).to_have_count(0)
    assert (len(keys), len(set(keys)), len(model.asked)) == (2, 1, 2)


def test_a_message_that_a_person_keeps_or_goes_on_writing_is_not_sent_by_itself(
    page: Page, context: BrowserContext, model: GatedModel
) -> None:
    model.will_answer("Hello.", "Whole.")
    say(page, "first")
    see_answer(page, "Hello.")
    see_idle(page)
    for kept in (True, False):
        context.set_offline(True)
        expect(banner(page)).to_be_visible()
        composer(page).press_sequentially("half")
        composer(page).press("Enter")
        expect(held(page)).to_be_visible()
        if kept:
            page.get_by_role("button", name="Don't send").click()
        else:
            composer(page).press_sequentially(" and more")
        expect(held(page)).to_have_count(0)
        context.set_offline(False)
        expect(banner(page)).to_have_count(0)
    expect(composer(page)).to_have_value("halfhalf and more")
    composer(page).press("Enter")
    see_answer(page, "Whole.")
    expect(said(page)).to_have_count(2)


def test_a_message_that_was_stored_unheard_is_not_stored_again_after_a_reload(
    page: Page, model: GatedModel
) -> None:
    model.will_answer("Hello.", "Once.")
    say(page, "first")
    see_answer(page, "Hello.")
    see_idle(page)

    def lose(route: Route) -> None:
        route.fetch()
        route.abort()

    page.route("**/send", lose)
    composer(page).fill("only once")
    composer(page).press("Enter")
    expect(held(page)).to_be_visible()
    page.reload()
    see_answer(page, "Once.")
    page.unroute("**/send")
    expect(composer(page)).to_have_value("only once")
    composer(page).press("Enter")
    expect(composer(page)).to_have_value("")
    see_idle(page)
    expect(said(page)).to_have_count(2)
    assert len(model.asked) == 2


def test_opened_without_its_server_it_says_so_and_comes_by_itself_when_the_server_is_back(
    context: BrowserContext, own_server: WebServer
) -> None:
    page = opened(context, own_server)
    expect(composer(page)).to_be_visible()
    page.evaluate(
        "import('./notify.js')"
        ".then((notify) => notify.registerWorker()).then(() => navigator.serviceWorker.ready)"
    )
    own_server.kill()
    page.goto(own_server.url)
    expect(page.get_by_role("heading", name=GONE)).to_be_visible()
    expect(page.get_by_text("start it with “holdfast web”")).to_be_visible()
    own_server.start()
    expect(composer(page)).to_be_visible()
