"""Approvals and questions on the page can't be missed, and a person's decision counts."""

import re

import pytest
from playwright.sync_api import APIResponse, BrowserContext, Page, Route, expect

from tests.web.page.browser_page import composer, entries, say, see_answer, see_idle
from tests.web.page.gated_model import Call, GatedModel
from tests.web.page.web_server import WebServer

pytestmark = pytest.mark.slow


def test_a_file_that_would_be_written_anew_is_shown_as_changes_of_what_is_there(
    page: Page, model: GatedModel, server: WebServer
) -> None:
    there, new = server.folder / "plan.md", server.folder / "new.md"
    there.write_text("first\nthen\n")
    model.will_answer(
        [Call("write_file", {"path": str(there), "text": "first\nlast\n"})],
        [Call("write_file", {"path": str(new), "text": "all new\n"})],
        "Both asked.",
    )
    say(page, "write outside")
    card = page.get_by_role("region", name="The agent asks for your approval")
    diff = card.get_by_role("region", name=f"Changes to {there}")
    expect(diff.locator(".removed")).to_have_text("- then\n")
    expect(diff.locator(".added")).to_have_text("+ last\n")
    colours = [
        diff.locator(kind).evaluate("each => getComputedStyle(each).backgroundColor")
        for kind in (".removed", ".added")
    ]
    assert len(set(colours)) == 2
    card.get_by_role("button", name="Allow").click()
    expect(card.locator(".subject")).to_have_text(str(new))
    expect(card.locator(".code")).to_contain_text("all new")
    card.get_by_role("button", name="Refuse").click()
    see_answer(page, "Both asked.")
    assert there.read_text() == "first\nlast\n"
    assert not new.exists()


def test_an_approval_is_shown_everywhere_and_allows(page: Page, model: GatedModel, server: WebServer) -> None:
    model.will_answer([Call("run_command", {"command": "echo ok > allowed.txt"})], "It is made.")
    say(page, "make it")
    card = page.get_by_role("region", name="The agent asks for your approval")
    expect(card).to_contain_text("echo ok > allowed.txt")
    expect(page.locator("details.tool .state")).to_have_text("waiting for you")
    expect(entries(page).first).to_contain_text("needs you")
    expect(page).to_have_title(re.compile(r"^\(1\) needs you"))
    assert not (server.project / "allowed.txt").exists()
    expect(card.locator("button.primary")).to_have_text(re.compile("^Allow"))
    expect(card.get_by_role("button", name="Always")).to_be_visible()
    card.get_by_role("button", name="Allow").click()
    see_answer(page, "It is made.")
    expect(card).to_have_count(0)
    expect(page).not_to_have_title(re.compile("needs you"))
    expect(entries(page).first).not_to_contain_text("needs you")
    assert (server.project / "allowed.txt").exists()


def test_a_refusal_runs_nothing(page: Page, model: GatedModel, server: WebServer) -> None:
    model.will_answer([Call("run_command", {"command": "touch refused.txt"})], "Then not.")
    say(page, "make it")
    card = page.get_by_role("region", name="The agent asks for your approval")
    card.get_by_role("button", name="Refuse").click()
    see_answer(page, "Then not.")
    see_idle(page)
    assert not (server.project / "refused.txt").exists()


def test_an_open_approval_is_there_after_a_reload(page: Page, model: GatedModel, server: WebServer) -> None:
    model.will_answer([Call("run_command", {"command": "touch later.txt"})], "It is made.")
    say(page, "make it")
    card = page.get_by_role("region", name="The agent asks for your approval")
    expect(card).to_be_visible()
    page.reload()
    expect(card).to_contain_text("touch later.txt")
    expect(card.get_by_text("y", exact=True)).to_be_visible()
    card.press("y")
    see_answer(page, "It is made.")
    assert (server.project / "later.txt").exists()


def test_another_conversations_approval_shows_in_the_list(
    page: Page, context: BrowserContext, model: GatedModel, server: WebServer
) -> None:
    model.will_answer([Call("run_command", {"command": "touch elsewhere.txt"})], "It is made.")
    say(page, "make it there")
    expect(page.get_by_role("region", name="The agent asks for your approval")).to_be_visible()
    other = context.new_page()
    other.goto(server.url)
    row = entries(other).filter(has_text="make it there").first
    expect(row).to_contain_text("needs you")
    expect(other).to_have_title(re.compile(r"^\(1\) needs you"))
    row.get_by_role("link").click()
    other.get_by_role("button", name="Refuse").click()
    see_answer(other, "It is made.")
    expect(page.get_by_role("region", name="The agent asks for your approval")).to_have_count(0)
    see_answer(page, "It is made.")


def test_a_question_is_answered_by_a_choice_or_in_words(page: Page, model: GatedModel) -> None:
    ask = Call("ask_user", {"question": "Which colour?", "choices": ["red", "blue"]})
    model.will_answer([ask], "Blue it is.", [Call("ask_user", {"question": "How large?"})], "Large.")
    say(page, "paint it")
    card = page.get_by_role("region", name="The agent asks you")
    expect(card).to_contain_text("Which colour?")
    card.get_by_role("button", name="blue").click()
    see_answer(page, "Blue it is.")
    assert "answered: blue" in str(model.asked[1]["messages"][-1]["content"])
    say(page, "and the size")
    card.get_by_role("textbox", name="Your answer").fill("quite large")
    card.get_by_role("button", name="Answer").click()
    see_answer(page, "Large.")
    assert "quite large" in str(model.asked[3]["messages"][-1]["content"])


def test_a_key_never_allows_what_cannot_be_undone(page: Page, model: GatedModel, server: WebServer) -> None:
    (server.project / "precious").mkdir()
    model.will_answer([Call("run_command", {"command": "rm -rf precious"})], "Then not.")
    say(page, "clean up")
    card = page.get_by_role("region", name="The agent asks for your approval")
    expect(card).to_contain_text("This can't be undone.")
    expect(card).to_be_focused()
    expect(card.get_by_role("button")).to_have_text(["Allow once", "Refuse"])
    expect(card.locator("button.primary")).to_have_text("Refuse")
    for key in ("y", "a", "y"):
        card.press(key)
    expect(card).to_be_visible()
    card.get_by_role("button", name="Refuse").click()
    see_answer(page, "Then not.")
    assert (server.project / "precious").exists()


def test_an_ask_that_comes_before_its_message_is_answered_for_is_focused_and_stays_so(
    page: Page, model: GatedModel
) -> None:
    model.will_answer("Hello.", [Call("run_command", {"command": "touch soon.txt"})], "Made.")
    say(page, "hello")
    see_answer(page, "Hello.")
    held: list[tuple[Route, APIResponse]] = []
    page.route("**/send", lambda route: held.append((route, route.fetch())))
    composer(page).fill("make a file")
    page.keyboard.press("Enter")
    card = page.get_by_role("region", name="The agent asks for your approval")
    expect(card).to_be_focused()
    [(route, answer)] = held
    route.fulfill(response=answer)
    expect(composer(page)).to_have_value("")
    expect(card).to_be_focused()
