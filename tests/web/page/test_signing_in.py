"""Signing in to an account on the page: by password and at an issuer, and out again."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect

from holdfast.core.secret import Secret
from holdfast.host.passwords import Passwords
from tests.web.page.browser_page import composer
from tests.web.page.conftest import PATIENCE_MS
from tests.web.page.gated_model import GatedModel
from tests.web.page.web_server import WebServer
from tests.web.sign_in.issuers import CLIENT, provider_of_pypi

pytestmark = pytest.mark.slow

PASSWORD = "correct horse battery"
SUBJECT = "248289761001"
EVE = {"sub": "666", "preferred_username": "Eve"}


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    with provider_of_pypi({"sub": SUBJECT, "preferred_username": "Anna"}, EVE) as url:
        yield url


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, issuer: str, _model: GatedModel) -> Iterator[WebServer]:
    """A server with an account that has a password and is linked to the issuer."""
    server = WebServer(
        tmp_path_factory.mktemp("shared"),
        _model.url,
        HOLDFAST_WEB_OIDC_ISSUER=issuer,
        HOLDFAST_WEB_OIDC_CLIENT_ID=CLIENT,
        HOLDFAST_WEB_OIDC_CLIENT_SECRET="of the test",
    ).start()
    with closing(server.store()) as db:
        user = db.users.create("Anna", "user")
        db.users.set_password_hash(user.id, Passwords().hash(Secret(PASSWORD)))
        db.users.link_identity(user.id, issuer, SUBJECT)
    yield server
    server.stop()


def test_without_accounts_there_is_the_token_alone_and_no_account_in_the_list(
    context: BrowserContext, server: WebServer
) -> None:
    page = context.new_page()
    page.goto(server.url)
    expect(page.get_by_role("textbox")).to_have_count(1)
    expect(page.get_by_label("Token")).to_be_focused()
    expect(page.get_by_role("button")).to_have_count(1)
    expect(page.locator("main a")).to_have_count(0)
    page.goto(server.link)
    expect(composer(page)).to_be_focused()
    expect(page.get_by_role("group", name="Account")).to_have_count(0)
    expect(page.get_by_role("button", name="Sign out")).to_have_count(0)


def test_a_password_signs_in_and_sign_out_ends_it(context: BrowserContext, shared: WebServer) -> None:
    page = context.new_page()
    page.goto(shared.url)
    name, password = page.get_by_label("Name"), page.get_by_label("Password")
    expect(name).to_be_focused()
    name.fill("anna")
    password.fill("not this one")
    password.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("do not belong together")
    expect(password).to_be_focused()
    password.fill(PASSWORD)
    password.press("Enter")
    expect(composer(page)).to_be_focused()
    group = page.get_by_role("group", name="Account")
    expect(group).to_contain_text("Anna")
    sees_what_an_account_may_use(page)
    [cookie] = context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    group.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()
    assert context.cookies() == []
    with closing(shared.store()) as db:
        assert db.users.of_token(cookie["value"]) is None


def test_an_issuer_signs_in_and_says_what_is_missing(chromium: Browser, shared: WebServer) -> None:
    # Not the shared fixture: the provider's own pages ask for a style sheet of others.
    context = chromium.new_context()
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto(shared.url)
    page.get_by_role("link", name="Sign in with 127.0.0.1").click()
    page.get_by_role("button", name=SUBJECT).click()
    expect(composer(page)).to_be_focused()
    expect(page.get_by_role("group", name="Account")).to_contain_text("Anna")
    assert page.url.rstrip("#/") == shared.url.rstrip("/")
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("link", name="Sign in with 127.0.0.1").click()
    page.get_by_role("button", name=EVE["sub"]).click()
    expect(page.get_by_role("heading", name="No account here")).to_be_visible()
    expect(page.get_by_text("holdfast users link-sign-in NAME")).to_be_visible()
    page.get_by_role("link", name="Back").click()
    expect(page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()
    page.goto(f"{shared.url}api/sign-in/oidc/callback?state=of-another-browser&code=x")
    expect(page.get_by_role("alert")).to_contain_text("not begun in this browser")
    context.close()


def test_who_is_invited_chooses_a_name_and_is_signed_in(context: BrowserContext, shared: WebServer) -> None:
    with closing(shared.store()) as db:
        code = db.users.invite("user", 3600.0)
    page = context.new_page()
    page.goto(f"{shared.url}#/sign-in/invited/{code}")
    name = page.get_by_label("Your name")
    expect(name).to_be_focused()
    assert problems(page) == []
    name.fill("Anna")
    name.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Anna")
    name.fill("Grace")
    page.get_by_label("A password, if you want one").fill(PASSWORD)
    name.press("Enter")
    token = page.get_by_label("Your token")
    expect(token).to_be_focused()
    assert problems(page) == []
    with closing(shared.store()) as db:
        found = db.users.of_token(token.input_value())
        assert found is not None
        assert found.name == "Grace"
        assert Passwords().check(db.users.password_hash(found.id), Secret(PASSWORD)).fits
    page.get_by_role("button", name="I have kept it").click()
    expect(composer(page)).to_be_focused()
    expect(page.get_by_role("group", name="Account")).to_contain_text("Grace")
    other = context.new_page()
    other.goto(f"{shared.url}#/sign-in/invited/{code}")
    other.get_by_label("Your name").fill("Eve")
    other.get_by_role("button", name="Join").click()
    expect(other.get_by_role("alert")).to_contain_text("invitation")


def test_the_owner_with_the_token_is_named_where_there_are_accounts(
    context: BrowserContext, shared: WebServer
) -> None:
    page = context.new_page()
    page.goto(shared.link)
    expect(page.get_by_role("group", name="Account")).to_contain_text("Installation")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_person_changes_the_password_by_keyboard(
    chromium: Browser, shared: WebServer, scheme: Literal["light", "dark"]
) -> None:
    fresh = f"a {scheme} horse battery"
    with closing(shared.store()) as db:
        user = db.users.create(f"Doris {scheme}", "user")
        db.users.set_password_hash(user.id, Passwords().hash(Secret(PASSWORD)))
    context = chromium.new_context(color_scheme=scheme, viewport={"width": 390, "height": 800})
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto(shared.url)
    page.get_by_label("Name").fill(user.name)
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(composer(page)).to_be_visible()
    page.get_by_role("button", name="Conversations").click()
    page.get_by_role("button", name="Password").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Change your password")
    old = dialog.get_by_label("The password until now")
    old.fill("not this one at all")
    dialog.get_by_label("New password").fill(fresh)
    dialog.get_by_label("The new one again").fill("something else")
    expect(dialog.get_by_role("status")).to_contain_text("not the same")
    expect(dialog.get_by_role("button", name="Change it")).to_be_disabled()
    assert problems(page) == []
    dialog.get_by_label("The new one again").fill(fresh)
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("the old password is not this account's")
    expect(old).to_be_focused()
    assert problems(page) == []
    old.fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    expect(page.get_by_text("The password is changed.")).to_be_visible()
    with closing(shared.store()) as db:
        kept = db.users.password_hash(user.id)
    assert Passwords().check(kept, Secret(fresh)).fits
    context.close()


def sees_what_an_account_may_use(page: Page) -> None:
    """Nothing is offered that the server would refuse."""
    views = page.locator(".side-views button")
    expect(views).to_have_text(["Memory", "Usage"])
    expect(page.get_by_role("button", name="Import")).to_have_count(0)
    expect(page.get_by_role("button", name="Prompts of your own")).to_have_count(0)
    page.get_by_role("button", name="Memory").click()
    panel = page.get_by_role("complementary").filter(has_text="Memory")
    expect(panel.get_by_label("What to forget").locator("option")).to_have_text(["This conversation"])
    expect(panel.get_by_role("alert")).to_have_count(0)
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Keyboard shortcuts").click()
    keys = page.get_by_role("dialog", name="Keyboard")
    expect(keys.get_by_text("New chat")).to_be_visible()
    expect(keys.get_by_text("Settings")).to_have_count(0)
    page.keyboard.press("Escape")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_ways_to_sign_in_are_for_everybody(
    chromium: Browser, shared: WebServer, scheme: str, width: int, tmp_path: Path
) -> None:
    size: ViewportSize = {"width": width, "height": 844}
    context = chromium.new_context(viewport=size, color_scheme="dark" if scheme == "dark" else "light")
    try:
        page = context.new_page()
        page.goto(f"{shared.url}#/sign-in/oidc-denied")
        expect(page.get_by_role("alert")).to_contain_text("cancelled")
        expect(page.get_by_label("Name")).to_be_focused()
        assert problems(page) == []
        assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
        page.screenshot(path=tmp_path / "sign-in.png", full_page=True)
        page.get_by_label("Name").fill("Anna")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_label("Password").press("Enter")
        expect(composer(page)).to_be_visible()
        if width < 1000:
            page.get_by_role("button", name="Conversations", exact=True).click()
        expect(page.get_by_role("group", name="Account")).to_be_in_viewport()
        assert problems(page) == []
        page.screenshot(path=tmp_path / "signed-in.png")
    finally:
        context.close()


def problems(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {node['html'][:160]}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"][:3]
    ]
