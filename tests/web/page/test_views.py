"""The views beside a conversation: its context, memory with what was recalled, and a turn's timeline."""

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.web.page.browser_page import say, see_answer, see_idle
from tests.web.page.gated_model import Call, GatedModel
from tests.web.page.test_safety import CORPUS, harmless
from tests.web.page.web_server import WebServer

pytestmark = pytest.mark.slow


def panel(page: Page, name: str) -> Locator:
    return page.get_by_role("complementary", name=name)


def test_the_context_view_tells_how_full_the_window_is_and_with_what(page: Page, model: GatedModel) -> None:
    model.will_answer("A short answer.")
    say(page, "hello")
    see_answer(page, "A short answer.")
    see_idle(page)
    page.get_by_role("button", name="Context").click()
    view = panel(page, "Context")
    expect(view).to_contain_text("of 128,000 tokens")
    expect(view.get_by_role("list", name="What fills the window")).to_contain_text("Tool descriptions")
    expect(view.get_by_role("list", name="Lineage").get_by_role("listitem")).to_have_count(1)
    expect(view.get_by_role("heading", name="Sandbox for commands")).to_be_visible()
    page.get_by_role("button", name="Close Context").click()
    expect(view).to_have_count(0)


def test_the_context_view_leads_to_the_ancestors(page: Page, model: GatedModel) -> None:
    model.will_answer(*(f"answer {place} " + "word " * 300 for place in range(5)))
    for place in range(5):
        say(page, f"question {place}")
        see_answer(page, f"answer {place}")
        see_idle(page)
    model.will_answer("A summary.")
    page.get_by_role("button", name="Context").click()
    view = panel(page, "Context")
    view.get_by_role("button", name="Compact now").click()
    lineage = view.get_by_role("list", name="Lineage").get_by_role("listitem")
    expect(lineage).to_have_count(2)
    expect(lineage.first).to_contain_text("ended by a compaction")
    lineage.first.get_by_role("link").click()
    expect(page.locator(".cell.found")).to_contain_text("question 0")


def test_memory_shows_its_providers_finds_and_forgets(page: Page, model: GatedModel) -> None:
    model.will_answer("A fine name for a heron.")
    say(page, "my heron is called Quetzalina")
    see_answer(page, "A fine name")
    see_idle(page)
    page.get_by_role("button", name="Memory").click()
    view = panel(page, "Memory")
    lane = view.get_by_role("list", name="Providers").get_by_role("listitem")
    expect(lane).to_contain_text("local")
    expect(lane).to_contain_text("nothing owed")
    view.get_by_role("searchbox", name="Search memory").fill("Quetzalina")
    found = view.get_by_role("list", name="Found in memory").get_by_role("listitem")
    expect(found.first).to_contain_text("Quetzalina")
    before = found.count()
    found.first.get_by_role("button", name="Forget").click()
    expect(found).to_have_count(before - 1)
    gone = view.get_by_role("list", name="Forgotten").get_by_role("listitem")
    expect(gone).to_contain_text("local: 2 deleted")


def test_memory_says_which_provider_keeps_it_on_one_machine(page: Page) -> None:
    def of_one_machine(route: Route) -> None:
        answer = route.fetch()
        providers = [{**each, "only_here": True} for each in answer.json()["providers"]]
        route.fulfill(response=answer, json={"providers": providers})

    page.get_by_role("button", name="Memory").click()
    lane = panel(page, "Memory").get_by_role("list", name="Providers").get_by_role("listitem")
    expect(lane).to_contain_text("nothing owed")
    expect(lane).not_to_contain_text("other machines")
    page.route("**/api/memory", of_one_machine)  # the panel looks again and again
    expect(lane).to_contain_text("servers on other machines have one of their own", timeout=30_000)


def test_memory_shows_what_would_be_forgotten_and_asks(page: Page, model: GatedModel) -> None:
    model.will_answer("A fine name for a heron.")
    say(page, "my heron is called Quetzalina")
    see_answer(page, "A fine name")
    see_idle(page)
    page.get_by_role("button", name="Memory").click()
    view = panel(page, "Memory")
    expect(view.get_by_role("list", name="Providers")).to_contain_text("nothing owed")
    view.get_by_role("textbox", name="Words").fill("heron quetzalina")
    view.get_by_role("button", name="Show what would go").click()
    shown = view.get_by_role("status", name="What would be forgotten")
    expect(shown).to_contain_text("1 memory, 1 turn")
    shown.get_by_role("button", name="Keep").click()
    expect(shown).to_have_count(0)
    view.get_by_role("combobox", name="What to forget").select_option("This conversation")
    view.get_by_role("button", name="Show what would go").click()
    shown.get_by_role("button", name="Forget for good").click()
    expect(view.get_by_role("list", name="Forgotten")).to_contain_text("local: 2 deleted")
    view.get_by_role("searchbox", name="Search memory").fill("Quetzalina")
    expect(view.get_by_text("Nothing is remembered about that.")).to_be_visible()


def test_a_search_of_memory_says_who_did_not_answer(page: Page, model: GatedModel) -> None:
    model.will_answer("A fine name for a heron.")
    say(page, "my heron is called Quetzalina")
    see_answer(page, "A fine name")
    see_idle(page)

    def without_one(route: Route) -> None:
        answer = route.fetch()
        failed = {"hindsight": "hindsight is unavailable: OSError: no route"}
        route.fulfill(response=answer, json={**answer.json(), "failed": failed})

    page.route("**/memory/search?*", without_one)
    page.get_by_role("button", name="Memory").click()
    view = panel(page, "Memory")
    view.get_by_role("searchbox", name="Search memory").fill("Quetzalina")
    expect(view.get_by_text("Not all of memory was searched: hindsight is unavailable")).to_be_visible()
    expect(view.get_by_role("list", name="Found in memory")).to_contain_text("Quetzalina")


def test_a_turns_timeline_is_a_picture_with_each_stretch(
    page: Page, model: GatedModel, server: WebServer
) -> None:
    (server.project / "note.txt").write_text("a note")
    model.will_answer([Call("read_file", {"path": "note.txt"})], "It says: a note.")
    say(page, "read it")
    see_answer(page, "It says: a note.")
    see_idle(page)
    page.get_by_role("button", name="Timeline").click()
    view = panel(page, "Timeline of a turn")
    picture = view.get_by_role("img")
    for name in ("Recall", "Model", "Tool · read_file", "Memory · local"):
        expect(picture.locator("text").filter(has_text=name).first).to_be_visible()
    expect(view.get_by_role("list", name="Deliveries")).to_contain_text("local")


def test_what_was_recalled_for_a_turn_is_shown(page: Page, model: GatedModel) -> None:
    model.will_answer("I will remember it.", "It is Zephyrine.")
    say(page, "my boat is called Zephyrine, remember that")
    see_answer(page, "I will remember it.")
    see_idle(page)
    page.get_by_role("button", name="New chat").first.click()
    say(page, "what is my boat called, Zephyrine?")
    see_answer(page, "It is Zephyrine.")
    see_idle(page)
    page.get_by_role("button", name="Memory").click()
    view = panel(page, "Memory")
    expect(view).to_contain_text("Recalled for the last turn")
    expect(view.get_by_text("Zephyrine").first).to_be_visible()


def test_memory_is_only_text(page: Page, model: GatedModel) -> None:
    model.will_answer("Noted.")
    say(page, "remember the word kumquatic: " + " ".join(CORPUS))
    see_answer(page, "Noted.")
    see_idle(page)
    page.get_by_role("button", name="Memory").click()
    view = panel(page, "Memory")
    view.get_by_role("searchbox", name="Search memory").fill("kumquatic")
    expect(view.get_by_role("list", name="Found in memory")).to_contain_text("<script>")
    harmless(page)
