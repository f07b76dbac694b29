"""What an admin does with the accounts on the page, and that nobody else is shown it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from holdfast.sessions.user_records import USER_ROLES, User
from tests.web.page.browser_page import composer
from tests.web.page.conftest import PATIENCE_MS
from tests.web.page.gated_model import GatedModel
from tests.web.page.test_signing_in import problems
from tests.web.page.web_server import WebServer

pytestmark = [pytest.mark.slow, pytest.mark.clause("S5")]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, _model: GatedModel) -> Iterator[WebServer]:
    """A server with accounts."""
    server = WebServer(tmp_path_factory.mktemp("shared"), _model.url).start()
    with closing(server.store()) as db:
        for role in USER_ROLES:
            db.users.create(role.title(), role, daily_turns=5)
    yield server
    server.stop()


@contextmanager
def page_of(
    chromium: Browser,
    server: WebServer,
    name: str,
    *,
    width: int = 1280,
    scheme: Literal["light", "dark"] = "light",
) -> Iterator[Page]:
    """The page in a browser that is signed in to an account."""
    with closing(server.store()) as db:
        secret, _ = db.users.issue_token(account(server, name).id, "of the test")
    context = chromium.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto(server.url)
    page.get_by_label("Token").fill(secret)
    page.keyboard.press("Enter")
    expect(composer(page)).to_be_visible()
    # Who this is comes with the status.
    expect(page.locator(".side-account")).to_contain_text(name)
    yield page
    context.close()


def account(server: WebServer, name: str) -> User:
    with closing(server.store()) as db:
        found = db.users.by_name(name)
    assert found is not None
    return found


def test_an_admin_changes_disables_and_enables_an_account_by_keyboard(
    chromium: Browser, shared: WebServer
) -> None:
    with page_of(chromium, shared, "Admin") as page:
        page.keyboard.press("Escape")
        page.keyboard.press("a")
        panel = page.get_by_role("complementary", name="Accounts")
        expect(panel).to_be_focused()
        rows = panel.get_by_role("list", name="Accounts").locator("> li")
        expect(rows).to_have_count(3)
        expect(rows.filter(has_text="admin, you")).to_have_count(1)
        ada = rows.filter(has=page.get_by_text("Change User"))
        expect(ada).to_contain_text("0 of 5")
        ada.get_by_text("Change User").press("Enter")
        ada.get_by_label("Storage in MB").fill("1.5")
        ada.get_by_label("Turns in 24 hours").fill("")
        ada.get_by_label("Role").select_option("guest")
        ada.get_by_role("button", name="Save").press("Enter")
        expect(ada).to_contain_text("of 1.5 MB")
        changed = account(shared, "User")
        assert (changed.role, changed.daily_turns, changed.storage_limit) == ("guest", None, 1_500_000)
        ada.get_by_role("button", name="Disable…").press("Enter")
        expect(ada.get_by_role("group", name="Are you sure?")).to_be_focused()
        assert account(shared, "User").disabled is None
        ada.get_by_role("button", name="Disable", exact=True).press("Enter")
        expect(ada).to_contain_text("guest, disabled")
        ada.get_by_role("button", name="Enable").press("Enter")
        expect(ada.get_by_role("button", name="Disable…")).to_be_visible()
        assert account(shared, "User").disabled is None
        itself = rows.filter(has=page.get_by_text("Change Admin"))
        itself.get_by_text("Change Admin").click()
        expect(itself.get_by_role("button", name="Disable…")).to_have_count(0)
        panel.get_by_text("Audit log", exact=True).click()
        log = panel.get_by_role("list", name="Audit log").locator("> li")
        expect(log.first).to_contain_text("user.enabled")
        expect(log.first).to_contain_text("Admin → User")


def test_an_admin_ends_sign_ins_and_invites_with_a_link(chromium: Browser, shared: WebServer) -> None:
    guest = account(shared, "Guest")
    with closing(shared.store()) as db:
        browser, _ = db.users.issue_token(guest.id, "a browser", kind="sign-in")
        program, _ = db.users.issue_token(guest.id, "a program")
    with page_of(chromium, shared, "Admin") as page:
        page.get_by_role("button", name="Accounts").click()
        panel = page.get_by_role("complementary", name="Accounts")
        row = panel.locator("li").filter(has=page.get_by_text("Change Guest"))
        row.get_by_text("Change Guest").click()
        row.get_by_role("button", name="End sign-ins…").click()
        row.get_by_role("button", name="End sign-ins", exact=True).click()
        expect(page.get_by_text("The sign-ins are ended.")).to_be_visible()
        with closing(shared.store()) as db:
            assert db.users.of_token(browser) is None
            assert db.users.of_token(program) is not None
        panel.get_by_label("Role of who is invited").select_option("guest")
        panel.get_by_role("button", name="Make an invitation").click()
        link = panel.get_by_label("The link of the invitation")
        expect(link).to_be_visible()
        address = link.input_value()
        assert address.startswith(f"{shared.url}#/sign-in/invited/hfi_")
        with closing(shared.store()) as db:
            assert db.users.accept(address.rpartition("/")[2], "Invited").role == "guest"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_accounts_can_be_read_by_everybody_on_any_screen(
    chromium: Browser, shared: WebServer, scheme: Literal["light", "dark"], width: int
) -> None:
    with page_of(chromium, shared, "Admin", width=width, scheme=scheme) as page:
        if width < 1000:
            page.get_by_role("button", name="Conversations", exact=True).click()
        page.get_by_role("button", name="Accounts").click()
        panel = page.get_by_role("complementary", name="Accounts")
        panel.get_by_text("Change Guest").click()
        panel.get_by_role("button", name="End tokens…").click()
        panel.get_by_role("button", name="Make an invitation").click()
        expect(panel.get_by_label("The link of the invitation")).to_be_visible()
        panel.get_by_text("Audit log", exact=True).click()
        expect(panel.get_by_role("list", name="Audit log").locator("> li").first).to_be_visible()
        assert problems(page) == []
        assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
        assert not panel.evaluate("panel => panel.scrollWidth > panel.clientWidth")


def test_nobody_but_an_admin_is_shown_the_accounts(chromium: Browser, shared: WebServer) -> None:
    with closing(shared.store()) as db:
        db.users.create("Plain", "user")
    with page_of(chromium, shared, "Plain") as page:
        expect(page.get_by_role("button", name="Usage")).to_be_visible()
        expect(page.get_by_role("button", name="Accounts")).to_have_count(0)
        page.keyboard.press("Escape")
        page.keyboard.press("a")
        page.keyboard.press("?")
        keys = page.get_by_role("dialog", name="Keyboard")
        expect(keys.get_by_text("New chat")).to_be_visible()
        expect(keys.get_by_text("Accounts, and the audit log")).to_have_count(0)
        expect(page.get_by_role("complementary")).to_have_count(0)
