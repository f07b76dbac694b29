"""The view of chat platforms: accounts, undelivered posts, strangers, roles; where a conversation lives."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from tests.web.page.browser_page import entries, say, see_answer, see_idle, session_id
from tests.web.page.chat_accounts import ACCOUNTS, GatewayTraces, said
from tests.web.page.gated_model import GatedModel
from tests.web.page.test_accessibility import findings
from tests.web.page.test_safety import CORPUS, harmless
from tests.web.page.web_server import WebServer

pytestmark = pytest.mark.slow

GONE = "Forbidden: bot was kicked from the group chat"


@pytest.fixture
def server(tmp_path: Path, _model: GatedModel) -> Iterator[WebServer]:
    """A server whose settings name two accounts; no gateway runs."""
    server = WebServer(tmp_path, _model.url, HOLDFAST_GATEWAY_ACCOUNTS=ACCOUNTS).start()
    yield server
    server.stop()


def opened(page: Page, name: str) -> Locator:
    page.get_by_role("button", name="Chats").click()
    return page.get_by_role("complementary", name="Chats").get_by_role("region", name=name)


def asked(view: Locator) -> Locator:
    return view.get_by_role("group", name="Are you sure?")


def test_every_account_says_how_it_stands(page: Page, server: WebServer) -> None:
    with server.store() as db:
        GatewayTraces(db).received("telegram", said("41", "Ada"))
        view = opened(page, "Telegram")
        expect(view.get_by_role("status")).to_have_text("served by another process")
        expect(view).to_contain_text("up to41")
        work = page.get_by_role("region", name="Slack (work)")
        expect(work.get_by_role("status")).to_have_text("not served")
        expect(work).to_contain_text("holdfast web --gateway")


@pytest.mark.clause("G7")
def test_what_could_not_be_delivered_is_sent_again_or_dropped_when_asked_twice(
    page: Page, server: WebServer
) -> None:
    with server.store() as db:
        gateway = GatewayTraces(db)
        room = gateway.received("telegram", said("1", "Ada", chat="g", is_direct=False, title="The crew"))
        again = gateway.could_not_send("telegram", room, "The ship sails at nine.", GONE)
        dropped = gateway.could_not_send("telegram", room, "The ship has sailed.", GONE)
        view = opened(page, "Telegram")
        failed = view.get_by_role("list", name="Could not be delivered").get_by_role("listitem")
        expect(failed).to_have_count(2)
        expect(failed.first).to_contain_text("in Telegram, in The crew")
        expect(failed.first).to_contain_text(GONE)
        failed.filter(has_text="at nine").get_by_role("button", name="Try again").click()
        expect(failed).to_have_count(1)
        failed.get_by_role("button", name="Drop…").click()
        expect(asked(failed)).to_be_focused()
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        expect(asked(failed).get_by_role("button", name="Keep")).to_be_focused()
        page.keyboard.press("Enter")
        expect(failed.get_by_role("button", name="Try again")).to_be_focused()
        assert db.chat_posts.get(dropped).state == "failed"  # type: ignore[union-attr]
        failed.get_by_role("button", name="Drop…").click()
        asked(failed).get_by_role("button", name="Drop for good").click()
        expect(failed).to_have_count(0)
        states = [post and post.state for post in map(db.chat_posts.get, (again, dropped))]
        assert states == ["due", "dropped"]


@pytest.mark.clause("S5")
def test_a_stranger_is_let_in_with_a_role_and_another_is_blocked(page: Page, server: WebServer) -> None:
    with server.store() as db:
        db.chat_people.pair("telegram", "10Ada", "Ada", "K7WQ2MXA")
        db.chat_people.pair("telegram", "10Eve", "Eve", "PPPP2222")
        page.reload()
        expect(page.get_by_role("button", name="Chats, 2 wait for you")).to_be_visible()
        view = opened(page, "Telegram")
        strangers = view.get_by_role("list", name="Ask to be let in").get_by_role("listitem")
        expect(strangers.filter(has_text="Ada")).to_contain_text("K7WQ2MXA")
        view.get_by_role("combobox", name="Role for Ada").select_option("guest")
        view.get_by_role("button", name="Let Ada in").click()
        expect(asked(view)).to_contain_text("without commands and files")
        assert db.chat_people.get("telegram", "10Ada") is None, "nothing happens before it is confirmed"
        asked(view).get_by_role("button", name="Let in as guest").click()
        expect(strangers).to_have_count(1)
        view.get_by_role("button", name="Block Eve").click()
        asked(view).get_by_role("button", name="Block").click()
        expect(strangers).to_have_count(0)
        roles = {each.name: each.role for each in db.chat_people.list("telegram")}
        assert roles == {"Ada": "guest", "Eve": "blocked"}
        expect(page.get_by_role("button", name="Chats", exact=True)).to_be_visible()


def test_a_role_is_changed_taken_back_and_given_by_id(page: Page, server: WebServer) -> None:
    with server.store() as db:
        db.chat_people.put("telegram", "@ada/1:example.org", "user", name="Ada")
        view = opened(page, "Telegram")
        role = view.get_by_role("combobox", name="Role of Ada")
        role.select_option("owner")
        asked(view).get_by_role("button", name="Keep").click()
        expect(role).to_have_value("user")
        role.select_option("owner")
        asked(view).get_by_role("button", name="Make owner").click()
        expect(page.get_by_text("Ada is owner now.")).to_be_visible()
        assert [each.role for each in db.chat_people.list("telegram")] == ["owner"]
        view.get_by_role("button", name="Remove Ada").click()
        asked(view).get_by_role("button", name="Remove", exact=True).click()
        expect(view).to_contain_text("Nobody yet.")
        view.get_by_text("Let somebody in by id").click()
        view.get_by_role("textbox", name="The platform's id of the person").fill("123")
        view.get_by_role("button", name="Let in as user").click()
        expect(view.get_by_role("list", name="May talk")).to_contain_text("123")
        assert [(each.person, each.role) for each in db.chat_people.list("telegram")] == [("123", "user")]


def test_a_conversation_says_where_it_lives(page: Page, model: GatedModel, server: WebServer) -> None:
    model.will_answer("Aye.", "Here.")
    say(page, "ahoy")
    see_answer(page, "Aye.")
    see_idle(page)
    with server.store() as db:
        gateway = GatewayTraces(db)
        gateway.lives("telegram", gateway.received("telegram", said("1", "Ada")), session_id(page))
    page.reload()
    head = page.get_by_role("button", name="in Telegram, with Ada")
    expect(head).to_be_visible()
    expect(entries(page).first).to_contain_text("Telegram")
    head.click()
    expect(page.get_by_role("complementary", name="Chats")).to_be_visible()


def test_what_others_wrote_is_only_text(page: Page, server: WebServer) -> None:
    with server.store() as db:
        gateway = GatewayTraces(db)
        room = gateway.received("telegram", said("1", CORPUS[0], title=CORPUS[1], is_direct=False))
        for each in CORPUS:
            gateway.could_not_send("telegram", room, each, each)
        db.chat_people.put("telegram", "p1", "user", name=CORPUS[2])
        db.chat_people.pair("telegram", "p2", CORPUS[3], "K7WQ2MXA")
        view = opened(page, "Telegram")
        expect(view.get_by_role("list", name="Could not be delivered")).to_contain_text("<script>")
        harmless(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_and_it_fits(chromium: Browser, server: WebServer, scheme: str, width: int) -> None:
    with server.store() as db:
        gateway = GatewayTraces(db)
        room = gateway.received("telegram", said("1", "Ada"))
        gateway.could_not_send("telegram", room, "word " * 60, f"{GONE} {'x' * 80}")
        db.chat_people.put("telegram", "10Ada", "owner", name="Ada")
        db.chat_people.pair("telegram", "10Eve", "Eve", "PPPP2222")
    context: BrowserContext = chromium.new_context(
        viewport={"width": width, "height": 844}, color_scheme="dark" if scheme == "dark" else "light"
    )
    try:
        page = context.new_page()
        page.goto(server.link)
        expect(page.get_by_role("heading", name="What shall we do?")).to_be_visible()
        # The field for a message may take the keys; the list is behind a button where the page is narrow.
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("g")
        view = page.get_by_role("region", name="Telegram")
        expect(view).to_contain_text("Eve")
        view.get_by_role("button", name="Let Eve in").click()
        view.get_by_role("button", name="Drop…").click()
        expect(asked(view)).to_have_count(2)
        assert findings(page) == []
        panel = page.get_by_role("complementary", name="Chats")
        assert panel.evaluate("box => box.scrollWidth <= box.clientWidth"), "it is wider than its place"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.keyboard.press("Escape")
        expect(panel).to_have_count(0)
    finally:
        context.close()
