"""What a person chooses on the page (model, place, prompts, settings), and what leaves it as a file."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from holdfast.models.embedded import embedded_state
from tests.web.page.browser_page import composer, entries, say, see_answer, see_idle, session_id
from tests.web.page.gated_model import Call, GatedModel
from tests.web.page.web_server import WebServer

pytestmark = pytest.mark.slow


def test_search_results_are_grouped_with_title_and_date(
    page: Page, model: GatedModel, server: WebServer
) -> None:
    model.will_answer("Quinces are yellow.", "They are hard.", "Nothing of the kind.")
    say(page, "what about quinces?")
    see_answer(page, "yellow")
    say(page, "and more of quinces")
    see_answer(page, "hard")
    page.request.patch(f"{server.url}api/sessions/{session_id(page)}", data={"title": "Fruit in autumn"})
    page.get_by_role("button", name="New chat").first.click()
    say(page, "no quinces here")
    see_answer(page, "Nothing")
    page.get_by_role("searchbox", name="Search all conversations").fill("quinces")
    expect(page.get_by_text(re.compile(r"\d messages found in 2 conversations"))).to_be_visible()
    group = page.get_by_role("group", name="Fruit in autumn")
    expect(group.get_by_role("heading")).to_contain_text("Fruit in autumn")
    expect(group.locator("h2 time")).to_have_text("today")
    expect(group.get_by_role("listitem")).to_have_count(3)
    expect(page.get_by_role("group", name="no quinces here").get_by_role("listitem")).to_have_count(1)


def test_the_beginning_of_a_name_entered_before_the_models_are_listed_finds_its_model(
    page: Page, model: GatedModel
) -> None:
    model.models = ["gated", "other"]
    held: list[Route] = []
    page.route("**/api/models", lambda route: held.append(route))  # noqa: PLW0108 - the driver marks its handlers
    with page.expect_request("**/api/models"):
        page.get_by_role("button", name="Choose a model; now gated").click()
    field = page.get_by_role("dialog").get_by_role("searchbox")
    field.fill("oth")
    field.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    held[0].continue_()
    expect(page.get_by_role("button", name="Model: other")).to_be_visible()


def test_a_conversation_has_a_model_and_a_place_of_its_own_and_keeps_them(
    page: Page, model: GatedModel, server: WebServer, tmp_path: Path
) -> None:
    (tmp_path / "here.txt").write_text("I am in the other project")
    model.models = ["gated", "gated-large"]
    expect(page.get_by_role("button", name="Model: gated")).to_be_visible()
    page.get_by_role("button", name="Choose a model; now gated").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name=re.compile("gated-large"))).to_contain_text(
        "128k tokens · tools"
    )
    dialog.get_by_role("searchbox").fill("large")
    dialog.get_by_role("searchbox").press("Enter")
    expect(page.get_by_role("button", name="Model: gated-large")).to_be_visible()
    page.get_by_role("button", name=re.compile("^Workspace: ")).click()
    dialog.get_by_label("Workspace: the folder").fill("/nowhere/at/all")
    dialog.get_by_label("Folder of the list").fill("Garden")
    dialog.get_by_role("button", name="Save").click()
    model.will_answer([Call("read_file", {"path": "here.txt"})], "Read.")
    composer(page).fill("read it")
    composer(page).press("Enter")
    expect(page.get_by_role("alert").filter(has_text="Not sent.")).to_contain_text("is not a folder")
    expect(composer(page)).to_have_value("read it")
    page.get_by_role("button", name=re.compile("^Workspace: ")).click()
    dialog.get_by_label("Workspace: the folder").fill(str(tmp_path))
    dialog.get_by_role("button", name="Save").click()
    composer(page).press("Enter")
    see_answer(page, "Read.")
    assert [asked["model"] for asked in model.asked] == ["gated-large"] * 2
    assert "I am in the other project" in str(model.asked[-1]["messages"][-1])
    here = session_id(page)
    page.get_by_label("Folder", exact=True).select_option("Garden")
    expect(entries(page)).to_have_count(1)
    page.get_by_role("button", name="Branch").last.click()
    expect(page.get_by_role("button", name="Model: gated-large")).to_be_visible()
    view = page.request.get(f"{server.url}api/sessions/{session_id(page)}").json()
    assert (view["model"], view["workspace"], view["folder"]) == ("gated-large", str(tmp_path), "Garden")
    page.goto(f"{server.url}#/s/{here}")
    page.get_by_role("button", name="Choose a model; now gated-large").click()
    dialog.get_by_role("button", name=re.compile("The usual model")).click()
    expect(dialog).to_be_hidden()
    model.will_answer("As usual.")
    say(page, "and now?")
    see_answer(page, "As usual.")
    assert model.asked[-1]["model"] == "gated"
    refused = page.request.patch(f"{server.url}api/sessions/{here}", data={"workspace": "relative"})
    assert refused.status == 422


def test_a_conversation_has_tools_of_its_own_and_a_branch_keeps_them(page: Page, model: GatedModel) -> None:
    dialog = page.get_by_role("dialog")
    page.get_by_role("button", name="Tools: all").click()
    dialog.get_by_role("button", name=re.compile("^small five tools")).click()
    expect(page.get_by_role("button", name="Tools: small")).to_be_visible()
    model.will_answer("Small.", "As usual.")
    say(page, "hello")
    see_answer(page, "Small.")
    names = {tool["function"]["name"] for tool in model.asked[0]["tools"]}
    assert names == {"run_command", "read_file", "write_file", "edit_file", "find_tool"}
    begun = page.url
    page.get_by_role("button", name="Branch").last.click()
    expect(page).not_to_have_url(begun)
    page.get_by_role("button", name="Tools: small").click()
    dialog.get_by_role("button", name="The usual ones").click()
    expect(page.get_by_role("button", name="Tools: all")).to_be_visible()
    say(page, "and now?")
    see_answer(page, "As usual.")
    assert len(model.asked[1]["tools"]) > len(names)


def test_prompts_of_ones_own_are_kept_used_and_found_by_the_palette(page: Page) -> None:
    expect(composer(page)).to_be_focused()
    composer(page).fill("Review this as a careful reader.")
    page.get_by_role("button", name="Prompts of your own").click()
    page.get_by_role("button", name="Keep a new one").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Text")).to_have_value("Review this as a careful reader.")
    dialog.get_by_label("Name").fill("Review")
    dialog.get_by_role("button", name="Keep").click()
    expect(dialog.get_by_role("button", name=re.compile("^Review Review this"))).to_be_visible()
    page.keyboard.press("Escape")
    composer(page).fill("")
    composer(page).focus()
    slow: list[Route] = []
    page.route("**/palette.js", lambda route: slow.append(route))  # noqa: PLW0108 - the driver marks its handlers
    with page.expect_request("**/palette.js"):
        # A quick person does not wait for the network.
        page.keyboard.press("Control+k")
        page.keyboard.type("prompt rev")
        page.keyboard.press("Enter")
    expect(page.get_by_role("combobox", name="What to do")).to_have_value("prompt rev")
    expect(composer(page)).to_have_value("")
    slow[0].continue_()
    expect(composer(page)).to_have_value("Review this as a careful reader.")
    page.keyboard.press("Control+k")
    page.keyboard.type("prompt rev")
    expect(dialog.get_by_role("option", selected=True)).to_have_text("Prompt: Review")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.keyboard.type("settings")
    expect(dialog.get_by_role("option", selected=True)).to_contain_text("Settings")
    page.keyboard.press("Enter")
    expect(page.get_by_role("complementary", name="Settings")).to_be_visible()


def test_settings_say_where_they_come_from_and_are_changed(
    page: Page, server: WebServer, model: GatedModel
) -> None:
    page.get_by_role("button", name="Settings").click()
    panel = page.get_by_role("complementary", name="Settings")
    key = panel.get_by_label("Key", exact=True)
    expect(key).to_be_disabled()
    expect(panel.get_by_text("Set by the environment variable HOLDFAST_MODEL_API_KEY.")).to_be_visible()
    assert key.input_value() == ""
    panel.get_by_label("Requests to the model").fill("0")
    panel.get_by_role("button", name="Save 1 change").click()
    expect(panel.get_by_role("alert")).to_contain_text("limits.max_steps")
    panel.get_by_label("Requests to the model").fill("33")
    panel.get_by_role("button", name="Save 1 change").click()
    expect(panel.get_by_role("status")).to_contain_text("From the next start")
    written = (server.folder / "config" / "holdfast" / "settings.toml").read_text()
    assert "max_steps = 33" in written
    panel.get_by_label("Colours").select_option("dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(22, 24, 28)"
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(22, 24, 28)"


def test_memory_rules_and_the_sandbox_are_set_by_choice_and_line_by_line(
    context: BrowserContext, own_server: WebServer
) -> None:
    file = own_server.folder / "config" / "holdfast" / "settings.toml"
    page = context.new_page()
    page.goto(own_server.link)
    page.get_by_role("button", name="Settings").click()
    panel = page.get_by_role("complementary", name="Settings")
    providers = panel.get_by_role("group", name="Memory providers")
    expect(providers.get_by_role("checkbox", name="local")).to_be_checked()
    providers.get_by_role("checkbox", name="mem0").check()
    providers.get_by_role("checkbox", name="mem0").uncheck()
    panel.get_by_text("Others, as module:Class").click()
    panel.get_by_label("Other memory providers").fill("garden.notes:Notes")
    panel.get_by_label("Allowed without asking").fill("command:git status *\n\ncommand:ls {a,b}\n")
    panel.get_by_label("Approval", exact=True).select_option("refuse it without asking")
    panel.get_by_label("Sandbox", exact=True).select_option("none")
    panel.get_by_label("Network in the sandbox").select_option("no")
    panel.get_by_label("More that can be written").fill("not a whole path")
    panel.get_by_role("button", name="Save 6 changes").click()
    expect(panel.get_by_role("alert")).to_contain_text("sandbox_writable")
    assert not file.exists()
    panel.get_by_label("More that can be written").fill("~/notes")
    panel.get_by_role("button", name="Save 6 changes").click()
    expect(panel.get_by_role("status")).to_contain_text("From the next start")
    written = tomllib.loads(file.read_text())
    assert written["memory"]["providers"] == ["local", "garden.notes:Notes"]
    assert written["tools"] == {
        "allow": ["command:git status *", "command:ls {a,b}"],
        "approval": "always-refuse",
        "sandbox": "off",
        "sandbox_network": False,
        "sandbox_writable": ["~/notes"],
    }
    expect(providers.get_by_role("checkbox", name="local")).to_be_checked()
    expect(panel.get_by_label("Allowed without asking")).to_have_value(
        "command:git status *\ncommand:ls {a,b}"
    )
    providers.get_by_role("checkbox", name="local").uncheck()
    panel.get_by_role("button", name="Save 1 change").click()
    expect(panel.get_by_text("Saved.", exact=True)).to_be_visible()
    assert tomllib.loads(file.read_text())["memory"]["providers"] == ["garden.notes:Notes"]


@pytest.fixture
def fresh_server(tmp_path: Path, model: GatedModel) -> Iterator[WebServer]:
    """A server at its first start: nothing is set, and no model is found."""
    server = WebServer(tmp_path, "")
    for name in ("PROVIDER", "BASE_URL", "API_KEY", "NAME", "CONTEXT_WINDOW"):
        server.unset.append(f"HOLDFAST_MODEL_{name}")
    server.set_file("[model]\nprovider = 'openai'\nattempts = 1\n")
    server.start()
    yield server
    server.stop()


def test_the_first_start_asks_for_a_model_and_keeps_its_key_apart(
    context: BrowserContext, fresh_server: WebServer, model: GatedModel
) -> None:
    page = context.new_page()
    page.goto(fresh_server.link)
    setup = page.get_by_role("region", name="Set up a model")
    setup.get_by_label("Provider").select_option("other")
    setup.get_by_label("Address").fill(model.url)
    setup.get_by_label("Key").fill("sk-very-secret")
    setup.get_by_role("button", name="Use this model").click()
    expect(setup).to_have_count(0)
    model.will_answer("Here I am.")
    say(page, "are you there?")
    see_answer(page, "Here I am.")
    config = fresh_server.folder / "config" / "holdfast"
    assert "sk-very-secret" not in (config / "settings.toml").read_text()
    assert "sk-very-secret" in (config / "settings.keys.toml").read_text()
    assert (config / "settings.keys.toml").stat().st_mode & 0o077 == 0
    assert "sk-very-secret" not in page.request.get(f"{fresh_server.url}api/settings").text()


def test_the_first_start_offers_the_stand_in_and_a_file_of_this_machine(
    context: BrowserContext, fresh_server: WebServer
) -> None:
    state = embedded_state(Path("/nowhere"))
    if state.weights is None or not state.runtime:
        pytest.skip(state.missing)
    page = context.new_page()
    page.goto(fresh_server.link)
    setup = page.get_by_role("region", name="Set up a model")
    offers, use = setup.get_by_label("Provider"), setup.get_by_role("button", name="Use this model")
    offers.select_option("gguf")
    expect(setup.get_by_label("Key")).to_have_count(0)
    expect(use).to_be_disabled()
    setup.get_by_role("textbox", name="File, by its whole path").fill("/nowhere/model.gguf")
    use.click()
    expect(setup.get_by_role("status")).to_contain_text("the model can't be used: ")
    expect(setup.get_by_role("status")).to_contain_text("/nowhere/model.gguf")
    offers.select_option("embedded")
    expect(setup).to_contain_text("98 MB of weights")
    page.route("**/api/settings/embedded-model", lambda route: route.abort(), times=1)
    use.click()
    expect(setup.get_by_role("alert")).to_be_visible()
    use.click()
    expect(page.get_by_role("button", name="Model: SmolLM2-135M-Instruct")).to_be_visible()
    expect(setup).to_have_count(0)
    assert 'provider = "embedded"' in (fresh_server.folder / "config/holdfast/settings.toml").read_text()


def test_a_link_that_fails_explains_itself_and_the_token_signs_in(
    context: BrowserContext, server: WebServer
) -> None:
    page = context.new_page()
    page.goto(f"{server.url}?token=wrong")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.get_by_text("holds a token that is not this server's")).to_be_visible()
    field = page.get_by_label("Token")
    expect(field).to_be_focused()
    field.fill("also wrong")
    field.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("This is not the token of this server.")
    field.fill(server.link)
    field.press("Enter")
    expect(composer(page)).to_be_focused()
    [cookie] = context.cookies()
    assert cookie["httpOnly"] is True
    assert cookie["sameSite"] == "Strict"


def test_a_conversation_leaves_as_markdown_as_html_and_on_paper(
    page: Page, context: BrowserContext, model: GatedModel, server: WebServer, tmp_path: Path
) -> None:
    (server.project / "a.txt").write_text("the old text\n")
    model.will_answer(
        [Call("edit_file", {"path": "a.txt", "old": "old", "new": "new"})],
        "# Done\n\n```python\nprint('hello')\n```\n\nand $x^2$ <script>",
    )
    say(page, "change the text")
    see_answer(page, "Done")
    see_idle(page)
    page.get_by_role("button", name="More for this conversation").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="Export as Markdown").click()
    assert download.value.suggested_filename == "change the text.md"
    download.value.save_as(tmp_path / "out.md")
    text = (tmp_path / "out.md").read_text()
    assert text.startswith("# change the text\n")
    assert "## You\n\nchange the text" in text
    assert "**Tool: edit_file**" in text
    assert "print('hello')" in text
    page.get_by_role("button", name="More for this conversation").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="Share as an HTML file").click()
    download.value.save_as(tmp_path / "out.html")
    shared = (tmp_path / "out.html").read_text()
    assert "<script" not in shared
    asked: list[str] = []
    other = context.new_page()
    other.on("request", lambda request: asked.append(request.url))
    other.goto((tmp_path / "out.html").as_uri())
    expect(other.get_by_role("heading", name="Done")).to_be_visible()
    expect(other.locator(".diff .added")).to_contain_text("+ new")
    expect(other.locator("math")).to_be_visible()
    assert len(asked) == 1, "the file is whole by itself"
    paper = "document.querySelector('.printout').innerText"
    page.evaluate(f"() => {{ globalThis.print = () => {{ globalThis.printed = {paper} }} }}")
    page.get_by_role("button", name="More for this conversation").click()
    page.get_by_role("menuitem", name="Print").click()
    page.wait_for_function("() => globalThis.printed")
    assert "change the text" in page.evaluate("printed")


def test_a_notification_says_that_something_needs_a_person(
    context_with_windows: BrowserContext, model: GatedModel, server: WebServer
) -> None:
    context_with_windows.grant_permissions(["notifications"], origin=server.url)
    page = context_with_windows.new_page()
    page.goto(server.link)
    page.evaluate(
        """() => {
        globalThis.shown = [];
        ServiceWorkerRegistration.prototype.showNotification = (title, options) =>
          shown.push([title, options.body]);
    }"""
    )
    page.get_by_role("button", name="Settings").click()
    notify = page.get_by_label("Notify me when something needs me")
    # The browser is asked first, so it is not checked at once.
    notify.click()
    expect(notify).to_be_checked()
    model.will_answer([Call("run_command", {"command": "touch seen.txt"})], "Made.")
    page.evaluate(
        "Object.defineProperty(document, 'visibilityState', { get: () => 'hidden', configurable: true })"
    )
    say(page, "make it while I am away")
    page.wait_for_function("() => shown.length > 0")
    assert page.evaluate("shown[0]") == ["Holdfast needs you", "make it while I am away"]
    manifest = page.request.get(f"{server.url}manifest.webmanifest")
    assert manifest.headers["content-type"] == "application/manifest+json"
    assert page.request.get(f"{server.url}{manifest.json()['icons'][0]['src']}").ok
