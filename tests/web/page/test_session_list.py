"""What a person does with conversations: search, edit, regenerate, branch, name, archive, delete, move."""

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import FilePayload, Page, Request, expect

from tests.core.picture_files import png
from tests.sessions.store_fixtures import until
from tests.web.page.browser_page import (
    answers,
    composer,
    entries,
    menu,
    said,
    say,
    see_answer,
    see_idle,
    session_id,
)
from tests.web.page.gated_model import Gate, GatedModel
from tests.web.page.web_server import WebServer

pytestmark = pytest.mark.slow


def talk(page: Page, model: GatedModel, *pairs: tuple[str, str]) -> None:
    model.will_answer(*(answer for _, answer in pairs))
    for text, answer in pairs:
        say(page, text)
        see_answer(page, answer)
        see_idle(page)


@pytest.mark.clause("L11")
def test_a_new_chat_names_the_one_before_and_commits_its_memory(
    page: Page, model: GatedModel, server: WebServer
) -> None:
    talk(page, model, ("my cat is called Odysseus", "Noted."))
    first = session_id(page)
    bodies: list[dict[str, Any]] = []

    def note(request: Request) -> None:
        if request.method == "POST" and request.url.endswith("/api/sessions"):
            bodies.append(json.loads(request.post_data or "{}"))

    page.on("request", note)
    page.get_by_role("button", name="New chat").first.click()
    expect(page.get_by_role("heading", name="What shall we do?")).to_be_visible()
    expect(composer(page)).to_be_focused()
    talk(page, model, ("hello again", "Hello."))
    [body] = bodies
    assert body["prev_session_id"] == first
    assert body["message"]["text"] == "hello again"
    assert session_id(page) != first
    with server.store() as db:
        until(lambda: db.get_session(first).committed_generation == 1)  # type: ignore[union-attr]
        session = db.get_session(first)
        assert session is not None
        assert session.committed_generation == session.generation


def test_an_edited_message_is_sent_again_and_the_original_stays(page: Page, model: GatedModel) -> None:
    talk(page, model, ("one", "First."), ("tow", "Second?"))
    original = page.url
    said(page).last.hover()
    said(page).last.get_by_role("button", name="Edit").click()
    expect(composer(page)).to_have_value("tow")
    model.will_answer("Second!")
    composer(page).fill("two")
    composer(page).press("Enter")
    see_answer(page, "Second!")
    expect(said(page)).to_have_text([re.compile("^one"), re.compile("^two")])
    assert page.url != original
    page.goto(original)
    see_answer(page, "Second?")


def test_regenerate_answers_the_last_message_anew(page: Page, model: GatedModel) -> None:
    talk(page, model, ("sing", "La."))
    model.will_answer("Do re mi.")
    page.get_by_role("button", name="Regenerate").click()
    see_answer(page, "Do re mi.")
    expect(said(page)).to_have_count(1)
    expect(answers(page)).to_have_count(1)


def test_a_branch_begins_at_any_message(page: Page, model: GatedModel) -> None:
    talk(page, model, ("one", "First."), ("two", "Second."))
    original = page.url
    page.get_by_role("button", name="Branch").nth(1).click()
    expect(answers(page)).to_have_text([re.compile("First.")])
    expect(said(page)).to_have_count(1)
    assert page.url != original
    talk(page, model, ("another way", "Third."))
    current = page.locator("li.entry.current")
    expect(current).to_contain_text("a branch of “one”")
    page.locator(".head").get_by_role("link", name="Branch of “one”").click()
    expect(page).to_have_url(original)
    expect(current).not_to_contain_text("a branch of")
    expect(page.locator(".head").get_by_role("link")).to_have_count(0)
    expect(answers(page)).to_have_count(2)


def test_search_lands_on_the_message(page: Page, model: GatedModel) -> None:
    filler = [(f"filler {place}", f"nothing {place} " + "much " * 40) for place in range(6)]
    talk(page, model, ("where is the zanzibarium?", "Behind the house."), *filler)
    page.get_by_role("button", name="New chat").first.click()
    page.get_by_role("searchbox", name="Search all conversations").fill("zanzibarium")
    hit = page.locator(".hits a").filter(has=page.locator("mark"))
    expect(hit).to_have_count(1)
    expect(hit.locator("mark")).to_have_text("zanzibarium")
    hit.click()
    found = page.locator(".cell.found")
    expect(found).to_contain_text("where is the zanzibarium?")
    expect(found).to_be_in_viewport()


def test_a_conversation_is_renamed_pinned_and_archived(page: Page, model: GatedModel) -> None:
    talk(page, model, ("about gardens", "Yes."))
    menu(page, "about gardens", "Rename")
    page.get_by_role("textbox", name="New title").fill("The garden plan")
    page.get_by_role("textbox", name="New title").press("Enter")
    expect(page.get_by_role("heading", name="The garden plan")).to_be_visible()
    expect(page).to_have_title(re.compile("The garden plan"))
    menu(page, "The garden plan", "Pin")
    expect(page.locator(".rows h2").first).to_have_text("Pinned")
    page.reload()
    expect(entries(page).first).to_contain_text("The garden plan")
    menu(page, "The garden plan", "Archive")
    expect(entries(page).filter(has_text="The garden plan")).to_have_count(0)
    page.get_by_role("button", name="Archived").click()
    expect(entries(page).filter(has_text="The garden plan")).to_have_count(1)


def test_requests_of_clients_that_name_no_conversation_are_listed_under_api(
    page: Page, model: GatedModel
) -> None:
    talk(page, model, ("about gardens", "Yes."))
    model.will_answer("Done.")
    body = '{"model": "x", "messages": [{"role": "user", "content": "by a program"}]}'
    page.evaluate(
        """(body) => fetch("/v1/chat/completions", {
            method: "POST", body, headers: { "Content-Type": "application/json" },
        }).then((answer) => answer.text())""",
        body,
    )
    page.reload()
    by_person, by_program = (
        entries(page).filter(has_text=text) for text in ("about gardens", "by a program")
    )
    expect(by_person).to_have_count(1)
    expect(by_program).to_have_count(0)
    page.get_by_role("button", name="API", exact=True).click()
    expect(by_program).to_have_count(1)
    expect(by_person).to_have_count(0)
    search = page.get_by_role("searchbox", name="Search all conversations")
    search.fill("program")
    expect(page.get_by_text("1 message found")).to_be_visible()
    search.fill("")
    page.get_by_role("button", name="Not API").click()
    search.fill("program")
    expect(page.get_by_text("0 messages found")).to_be_visible()
    search.fill("")
    expect(by_person).to_have_count(1)
    expect(by_program).to_have_count(0)


def test_a_conversation_is_exported_and_deleted(page: Page, model: GatedModel, tmp_path: Path) -> None:
    talk(page, model, ("to be deleted", "Fine."))
    with page.expect_download() as download:
        menu(page, "to be deleted", "Export to import elsewhere")
    download.value.save_as(tmp_path / "export.ndjson")
    assert "to be deleted" in (tmp_path / "export.ndjson").read_text(encoding="utf-8")
    menu(page, "to be deleted", "Delete…")
    page.get_by_role("menuitemcheckbox", name="Memory forgets it too").click()
    page.get_by_role("menuitem", name="Delete for good").click()
    expect(entries(page).filter(has_text="to be deleted")).to_have_count(0)
    expect(page.get_by_role("heading", name="What shall we do?")).to_be_visible()


def choose(page: Page, name: str, content: bytes) -> None:
    """Import a file with the keyboard alone."""
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Import").press("Enter")
    chooser.value.set_files([FilePayload(name=name, mimeType="application/x-ndjson", buffer=content)])


def test_an_exported_conversation_is_imported_again(page: Page, model: GatedModel, tmp_path: Path) -> None:
    talk(page, model, ("a trip to Ísafjörður", "By boat."))
    menu(page, "a trip to", "Pin")
    with page.expect_download() as download:
        menu(page, "a trip to", "Export to import elsewhere")
    download.value.save_as(tmp_path / "export.ndjson")
    exported = (tmp_path / "export.ndjson").read_bytes()
    choose(page, "export.ndjson", exported)
    expect(page.locator(".toast.bad")).to_contain_text("already exists; nothing was imported")
    menu(page, "a trip to", "Delete…")
    page.get_by_role("menuitem", name="Delete for good").click()
    expect(entries(page).filter(has_text="a trip to")).to_have_count(0)
    choose(page, "export.ndjson", exported)
    see_answer(page, "By boat.")
    expect(page.locator(".toast")).to_contain_text("“a trip to Ísafjörður” is imported.")
    expect(entries(page).filter(has_text="a trip to")).to_have_count(1)
    expect(page.locator(".rows h2").first).to_have_text("Pinned")
    talk(page, model, ("and back?", "By bus."))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"dear diary\n", "line 1: it is not JSON"),
        (b'{"some":"lines"}\n', "the mark of an export. Nothing was imported."),
        ("caf\u00e9".encode("latin-1"), "byte 3 is none. Nothing was stored."),
        (b"", "the file ends before any session"),
    ],
)
def test_a_file_that_is_no_export_is_refused_with_the_reason(page: Page, content: bytes, told: str) -> None:
    expect(composer(page)).to_be_focused()
    where = page.url
    choose(page, "diary.txt", content)
    refusal = page.locator(".toast.bad")
    expect(refusal).to_contain_text(told)
    expect(refusal).to_contain_text("Send a file that Holdfast exported, as it was exported.")
    assert page.url == where


def test_a_waiting_message_can_be_changed_and_taken_back(page: Page, model: GatedModel) -> None:
    gate = Gate()
    model.will_answer(["Busy ", gate, "no more."], "To the changed one.")
    say(page, "work")
    see_answer(page, "Busy")
    say(page, "first wish")
    say(page, "second wish")
    waiting = page.get_by_role("region", name="Messages that wait")
    expect(waiting.locator(".waits")).to_contain_text(["first wish", "second wish"])
    waiting.get_by_role("button", name="Change").first.click()
    waiting.get_by_role("textbox", name="Change the waiting message").fill("better wish")
    waiting.get_by_role("button", name="Save").click()
    expect(waiting.locator(".waits")).to_contain_text(["better wish", "second wish"])
    waiting.get_by_role("button", name="Withdraw").last.click()
    expect(waiting).not_to_contain_text("second wish")
    gate.open()
    see_answer(page, "To the changed one.")
    see_idle(page)
    expect(said(page)).to_have_text([re.compile("^work"), re.compile("^better wish")])


def test_pictures_and_files_are_attached_by_choice_paste_and_drop(page: Page, model: GatedModel) -> None:
    model.will_answer("I see both.")
    page.get_by_label("Files to attach").set_input_files(
        [
            FilePayload(name="dot.png", mimeType="image/png", buffer=png()),
            FilePayload(name="notes.txt", mimeType="text/plain", buffer=b"remember the milk"),
        ]
    )
    pasted = png(3, 2)
    page.evaluate(
        """(picture) => {
        const given = new DataTransfer();
        given.items.add(new File(['pasted words'], 'pasted.txt', {type: 'text/plain'}));
        // As a browser hands over a screenshot.
        given.items.add(new File([new Uint8Array(picture)], 'image.png', {type: 'image/png'}));
        const area = document.querySelector('.composer textarea');
        const usual = {bubbles: true, cancelable: true};
        area.dispatchEvent(new ClipboardEvent('paste', {clipboardData: given, ...usual}));
        const dropped = new DataTransfer();
        dropped.items.add(new File(['dropped words'], 'dropped.md', {type: 'text/markdown'}));
        area.dispatchEvent(new DragEvent('drop', {dataTransfer: dropped, ...usual}));
    }""",
        list(pasted),
    )
    expect(page.get_by_role("list", name="Attachments").get_by_role("listitem")).to_have_count(5)
    page.get_by_role("button", name="Remove dropped.md").click()
    say(page, "look at these")
    see_answer(page, "I see both.")
    pictures = said(page).last.get_by_role("img", name="Attached image")
    expect(pictures).to_have_count(2)
    expect(pictures.last).to_be_visible()
    assert pictures.last.evaluate("each => [each.naturalWidth, each.naturalHeight]") == [3, 2]
    expect(said(page).last).to_contain_text("notes.txt")
    sent = json.dumps(model.asked[0]["messages"][-1])
    assert sent.count("data:image/png;base64,") == 2
    assert base64.b64encode(pasted).decode() in sent
    assert "remember the milk" in sent
    assert "pasted words" in sent
    assert "dropped words" not in sent


def test_what_was_said_before_a_compaction_stays_readable(page: Page, model: GatedModel) -> None:
    said_so_far = [(f"question {place}", f"answer {place} " + "word " * 300) for place in range(6)]
    talk(page, model, *said_so_far)
    model.will_answer("A summary of six questions.")
    menu(page, "question 0", "Compact now")
    divider = page.get_by_text("The conversation was compacted here")
    expect(divider).to_be_attached()
    page.locator(".scroll").evaluate("box => { box.scrollTop = 0 }")
    expect(said(page).first).to_contain_text("question 0")
    expect(said(page)).to_have_count(6)
    talk(page, model, ("question 6", "answer 6"))
    expect(said(page)).to_have_count(7)
    page.reload()
    see_answer(page, "answer 6")
    page.locator(".scroll").evaluate("box => { box.scrollTop = 0 }")
    expect(said(page).first).to_contain_text("question 0")
    expect(divider).to_have_count(1)
    said(page).nth(1).hover()
    said(page).nth(1).get_by_role("button", name="Branch").click()
    expect(composer(page)).to_have_value("question 1")
    expect(said(page)).to_have_count(1)
    see_answer(page, "answer 0")
