"""Every failure is visible and honest, and nothing is lost: the server gone and back, the model."""

import re

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.web.page.browser_page import answers, composer, said, say, see_answer, see_idle
from tests.web.page.gated_model import Gate, GatedModel, Refusal
from tests.web.page.web_server import WebServer

pytestmark = pytest.mark.slow
LEASE_MS = 40_000
"""Longer than what a killed process held stays held."""


@pytest.mark.clause("D10", "I7")
def test_a_server_killed_in_mid_stream_loses_nothing_and_goes_on_by_itself(
    context: BrowserContext, model: GatedModel, own_server: WebServer
) -> None:
    gate = Gate()
    model.will_answer(["The first half ", Gate()], ["All of it ", gate, "at last."], "And what waited.")
    page = context.new_page()
    page.goto(own_server.link)
    say(page, "tell me all")
    see_answer(page, "The first half")
    say(page, "and then")
    expect(page.get_by_text("and then")).to_be_visible()
    own_server.kill()
    expect(page.get_by_text("The server can't be reached.")).to_be_visible()
    see_answer(page, "The first half")
    composer(page).fill("written while it was gone")
    own_server.start()
    expect(page.get_by_text("The server can't be reached.")).to_have_count(0)
    # It goes on unasked, so there is nothing to decide.
    see_answer(page, "All of it")
    expect(page.get_by_role("alert").filter(has_text="This turn was cut off")).to_have_count(0)
    gate.open()
    see_answer(page, "And what waited.")
    see_idle(page)
    expect(said(page)).to_have_text([re.compile("^tell me all"), re.compile("^and then")])
    expect(composer(page)).to_have_value("written while it was gone")


def test_where_a_server_asks_a_cut_off_turn_can_be_resumed_started_over_or_dropped(
    context: BrowserContext, model: GatedModel, asking_server: WebServer
) -> None:
    model.will_answer(
        ["Half ", Gate()], "Resumed.", ["Half more ", Gate()], "Over.", ["Again half ", Gate()], "Next."
    )
    page = context.new_page()
    page.goto(asking_server.link)
    for button, told in (("Resume", "Resumed."), ("Start over", "Over."), ("Drop", "")):
        say(page, "go on")
        see_answer(page, "alf")
        asking_server.kill()
        asking_server.start()
        card = page.get_by_role("alert").filter(has_text="This turn was cut off")
        card.get_by_role("button", name=button).click(timeout=LEASE_MS)
        expect(card).to_have_count(0)
        if told:
            see_answer(page, told)
        see_idle(page)
    say(page, "and now")
    see_answer(page, "Next.")


def test_a_turn_goes_on_without_a_tab(page: Page, context: BrowserContext, model: GatedModel) -> None:
    gate = Gate()
    model.will_answer(["Begun ", gate, "and done."])
    say(page, "work")
    see_answer(page, "Begun")
    address = page.url
    page.close()
    gate.open()
    again = context.new_page()
    again.goto(address)
    see_answer(again, "Begun and done.")


def test_a_models_error_is_shown_in_its_own_words(page: Page, model: GatedModel) -> None:
    model.will_answer([Refusal(401, "Incorrect key: ask the <b>owner</b> of room 12")], "Better now.")
    say(page, "hello")
    card = page.get_by_role("alert").filter(has_text="The turn failed")
    expect(card).to_contain_text("Incorrect key: ask the <b>owner</b> of room 12")
    shown = card.inner_text()
    page.reload()
    expect(card).to_have_text(shown, use_inner_text=True)
    expect(page.get_by_text("Stopped here.")).to_have_count(0)
    card.get_by_role("button", name="Try again").click()
    see_answer(page, "Better now.")
    expect(card).to_have_count(0)


def test_the_card_of_a_failed_turn_can_be_dismissed_and_goes_with_the_next_message(
    page: Page, model: GatedModel
) -> None:
    model.will_answer([Refusal(401, "wrong key")], [Refusal(401, "still wrong")], "Better now.")
    card = page.get_by_role("alert").filter(has_text="The turn failed")
    say(page, "hello")
    card.get_by_role("button", name="Dismiss").click()
    expect(card).to_have_count(0)
    expect(page.get_by_text("Stopped here.")).to_be_visible()
    say(page, "again")
    expect(card).to_contain_text("still wrong")
    say(page, "and again")
    see_answer(page, "Better now.")
    expect(card).to_have_count(0)


def test_a_message_that_was_not_accepted_stays_in_the_composer(page: Page, model: GatedModel) -> None:
    model.will_answer("Hello.", "Once.")
    say(page, "first")
    see_answer(page, "Hello.")
    page.route("**/send", lambda route: route.abort())
    composer(page).fill("do not lose me")
    composer(page).press("Enter")
    expect(page.get_by_role("alert").filter(has_text="Not sent yet.")).to_be_visible()
    expect(composer(page)).to_have_value("do not lose me")
    page.unroute("**/send")
    composer(page).press("Enter")
    see_answer(page, "Once.")
    expect(said(page)).to_have_count(2)


def test_a_message_whose_answer_was_lost_on_the_way_is_stored_once(page: Page, model: GatedModel) -> None:
    model.will_answer("Hello.", "Once.")
    say(page, "first")
    see_answer(page, "Hello.")

    def lose(route: Route) -> None:
        route.fetch()
        route.abort()

    page.route("**/send", lose)
    composer(page).fill("only once")
    composer(page).press("Enter")
    expect(page.get_by_role("alert").filter(has_text="Not sent yet.")).to_be_visible()
    page.unroute("**/send")
    composer(page).press("Enter")
    see_answer(page, "Once.")
    expect(composer(page)).to_have_value("")
    expect(said(page)).to_have_count(2)
    see_idle(page)


def test_two_tabs_on_one_conversation_show_the_same(
    page: Page, context: BrowserContext, model: GatedModel
) -> None:
    gates = [Gate(), Gate()]
    model.will_answer(
        ["From the first ", gates[0], "tab."], ["From the second ", gates[1], "tab."], "Queued one."
    )
    say(page, "one")
    see_answer(page, "From the first")
    other = context.new_page()
    other.goto(page.url)
    see_answer(other, "From the first")
    gates[0].open()
    for tab in (page, other):
        see_answer(tab, "From the first tab.")
    say(other, "two")
    for tab in (page, other):
        see_answer(tab, "From the second")
    say(page, "three")
    for tab in (page, other):
        expect(tab.get_by_role("region", name="Messages that wait")).to_contain_text("three")
    gates[1].open()
    for tab in (page, other):
        see_answer(tab, "Queued one.")
        expect(said(tab)).to_have_count(3)
        expect(answers(tab)).to_have_count(3)


def test_a_conversation_that_is_not_there_is_said_so(page: Page, server: WebServer) -> None:
    page.goto(f"{server.url}#/s/nothing-of-that-name")
    expect(page.get_by_role("alert").filter(has_text="can't be shown")).to_be_visible()


def test_a_browser_without_the_token_is_told_what_to_do(context: BrowserContext, server: WebServer) -> None:
    page = context.new_page()
    page.goto(server.url)
    expect(page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()
    expect(page.get_by_text("This browser is not signed in to this server.")).to_be_visible()


def test_a_conversation_that_another_tab_deleted_is_said_to_be_gone(
    page: Page, context: BrowserContext, model: GatedModel, server: WebServer
) -> None:
    model.will_answer("Here.")
    say(page, "short lived")
    see_answer(page, "Here.")
    see_idle(page)
    address = page.url.replace("#/s/", "api/sessions/")
    assert context.request.delete(f"{address}?force=true").ok
    expect(page.get_by_role("alert").filter(has_text="can't be shown")).to_be_visible()
    expect(page.get_by_role("navigation").get_by_text("short lived")).to_have_count(0)
