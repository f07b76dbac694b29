"""Talking on the page: sending, streaming, reloading, stopping, and what is said while a turn runs."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.web.page.browser_page import answers, composer, entries, said, say, see_answer, see_idle
from tests.web.page.gated_model import Call, Gate, GatedModel, Thought
from tests.web.page.web_server import WebServer

pytestmark = pytest.mark.slow


def test_a_message_is_sent_and_its_answer_streams_in(page: Page, model: GatedModel) -> None:
    gate = Gate()
    model.will_answer([Thought("They greet me."), "Hello **there**, ", gate, "person.\n\n- one\n- two"])
    say(page, "hi")
    see_answer(page, "Hello there,")
    expect(answers(page).last.locator("strong")).to_have_text("there")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    gate.open()
    expect(answers(page).last.locator("li")).to_have_text(["one", "two"])
    see_idle(page)
    expect(said(page)).to_have_text([re.compile("^hi")])
    expect(answers(page).last.get_by_text("They greet me.")).to_be_hidden()
    answers(page).last.get_by_text("Reasoning").click()
    expect(answers(page).last.get_by_text("They greet me.")).to_be_visible()


def test_a_new_chat_is_one_request_and_goes_on_in_the_same_stream(page: Page, model: GatedModel) -> None:
    streams: list[str] = []
    page.on("request", lambda sent: streams.append(sent.url) if sent.url.endswith("/events") else None)
    model.will_answer("First.", "Second.")
    say(page, "hi")
    see_answer(page, "First.")
    say(page, "more")
    see_answer(page, "Second.")
    assert [url for url in streams if "/sessions/" in url] == []


TELLS = """
async (wanted) => {
  const until = Date.now() + 20_000;
  while (Date.now() < until) {
    if ((await (await fetch("/metrics")).text()).includes(wanted)) return true;
    await new Promise(requestAnimationFrame);
  }
  return false;
}
"""
SLOW_POSTS = """
const real = fetch;
globalThis.fetch = async (...asked) => {
  const answer = await real(...asked);
  if (asked[1]?.method === "POST") await new Promise((go) => (globalThis.letGo = go));
  return answer;
};
"""


def test_who_opens_a_new_chat_from_the_list_before_it_is_answered_for_follows_it_once(
    page: Page, model: GatedModel, server: WebServer
) -> None:
    gate = Gate()
    model.will_answer(["One two three. ", gate, "Four five."])
    page.evaluate(SLOW_POSTS)
    composer(page).fill("count")
    composer(page).press("Enter")
    entries(page).filter(has_text="count").get_by_role("link").click()
    see_answer(page, "One two three.")
    page.evaluate("letGo()")
    expect(composer(page)).to_have_value("")
    gate.open()
    see_answer(page, "One two three. Four five.")
    see_idle(page)
    expect(said(page)).to_have_count(1)
    # The list's stream and the conversation's.
    assert page.evaluate(TELLS, "holdfast_event_streams 2.0")


def test_who_leaves_a_new_chat_and_comes_back_has_missed_nothing(page: Page, model: GatedModel) -> None:
    gate = Gate()
    model.will_answer(["One two three. ", gate, "Four five."])
    say(page, "count")
    see_answer(page, "One two three.")
    page.get_by_role("button", name="New chat").first.click()
    expect(page.get_by_role("heading", name="What shall we do?")).to_be_visible()
    gate.open()
    page.go_back()
    see_answer(page, "One two three. Four five.")
    expect(said(page)).to_have_count(1)


def test_a_reload_in_mid_stream_goes_on_with_the_partial_text(page: Page, model: GatedModel) -> None:
    gate = Gate()
    model.will_answer(["One two three. ", gate, "Four five."])
    say(page, "count")
    see_answer(page, "One two three.")
    page.reload()
    see_answer(page, "One two three.")
    expect(said(page)).to_have_count(1)
    gate.open()
    see_answer(page, "One two three. Four five.")
    see_idle(page)
    expect(answers(page)).to_have_count(1)


def test_stop_keeps_the_partial_text(page: Page, model: GatedModel) -> None:
    gate = Gate()
    model.will_answer(["It begins well ", gate, "and never ends."])
    say(page, "tell me")
    see_answer(page, "It begins well")
    page.get_by_role("button", name="Stop").click()
    see_idle(page)
    see_answer(page, "It begins well")
    expect(page.get_by_text("Stopped here.")).to_be_visible()
    page.reload()
    see_answer(page, "It begins well")


def test_stop_works_before_the_first_token(page: Page, model: GatedModel) -> None:
    gate = Gate()
    model.will_answer([gate, "too late"], "Here I am.")
    say(page, "are you there?")
    gate.wait_until_reached()
    page.get_by_role("button", name="Stop").click()
    see_idle(page)
    expect(said(page)).to_have_count(1)
    say(page, "and now?")
    see_answer(page, "Here I am.")


def test_a_queued_message_is_shown_as_queued_and_runs_next(page: Page, model: GatedModel) -> None:
    gate = Gate()
    model.will_answer(["First ", gate, "answer."], "Second answer.")
    say(page, "one")
    see_answer(page, "First")
    say(page, "two")
    waiting = page.get_by_role("region", name="Messages that wait")
    expect(waiting).to_contain_text("Queued")
    expect(waiting).to_contain_text("two")
    page.reload()
    expect(waiting).to_contain_text("two")
    gate.open()
    see_answer(page, "Second answer.")
    expect(waiting).to_have_count(0)
    expect(said(page)).to_have_count(2)


def test_a_steering_message_joins_the_running_turn(page: Page, model: GatedModel, server: WebServer) -> None:
    (server.project / "note.txt").write_text("the note")
    gate = Gate()
    model.will_answer(["I look. ", gate, Call("read_file", {"path": "note.txt"})], "It says: the note.")
    say(page, "read it")
    see_answer(page, "I look.")
    page.get_by_text("Steer", exact=True).click()
    composer(page).fill("be brief")
    composer(page).press("Enter")
    expect(page.get_by_role("region", name="Messages that wait")).to_contain_text("Steering")
    gate.open()
    see_answer(page, "It says: the note.")
    expect(said(page)).to_have_count(2)
    assert any("be brief" in str(message["content"]) for message in model.asked[1]["messages"])


def test_an_interrupting_message_stops_the_turn_and_is_answered_next(page: Page, model: GatedModel) -> None:
    gate = Gate()
    model.will_answer(["A long story ", gate, "without end."], "The short one.")
    say(page, "tell a story")
    see_answer(page, "A long story")
    page.get_by_text("Interrupt", exact=True).click()
    say(page, "shorter!")
    see_answer(page, "The short one.")
    expect(answers(page).first).to_contain_text("A long story")
    expect(said(page)).to_have_count(2)
    see_idle(page)


def test_a_draft_survives_a_reload(page: Page, model: GatedModel) -> None:
    model.will_answer("Yes.")
    say(page, "hello")
    see_answer(page, "Yes.")
    composer(page).fill("half a thou")
    page.reload()
    expect(composer(page)).to_have_value("half a thou")


def test_a_tool_call_is_folded_with_its_result(page: Page, model: GatedModel, server: WebServer) -> None:
    (server.project / "note.txt").write_text("the note says hello")
    model.will_answer([Call("read_file", {"path": "note.txt"})], "Done.")
    say(page, "read it")
    see_answer(page, "Done.")
    row = page.locator("details.tool")
    expect(row.get_by_text("the note says hello")).to_be_hidden()
    row.locator("summary").click()
    expect(row.get_by_role("region")).to_contain_text("the note says hello")
