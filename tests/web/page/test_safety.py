"""The page is safe to look at: whatever a model, a tool, a title or memory says, it is only text."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Dialog, Page, Request, expect

from tests.web.page.browser_page import answers, entries, say, see_answer, see_idle, session_id
from tests.web.page.gated_model import Call, GatedModel
from tests.web.page.web_server import WebServer

pytestmark = pytest.mark.slow

CORPUS: list[str] = json.loads((Path(__file__).parent / "xss_corpus.json").read_text(encoding="utf-8"))
HARMFUL = """() => {
  const bad = [];
  if (window.pwned) bad.push('a script ran: ' + window.pwned);
  const root = document.querySelector('#app');
  for (const node of root.querySelectorAll('*')) {
    const tag = node.tagName.toLowerCase();
    if (['script', 'iframe', 'object', 'embed', 'base', 'meta', 'link', 'style', 'animate', 'set']
      .includes(tag)) bad.push(tag);
    for (const attribute of node.attributes) {
      if (/^on/i.test(attribute.name)) bad.push(`${tag} ${attribute.name}`);
      if (['href', 'src', 'action', 'formaction', 'xlink:href'].includes(attribute.name)
          && /^\\s*(javascript|vbscript|data:text)/i.test(attribute.value)) bad.push(attribute.value);
    }
    if (tag === 'img' && !/^(data:image|blob:)/.test(node.src)) bad.push('img ' + node.src);
    if (tag === 'form' && !node.matches('.composer, .reply')) bad.push('form');
    if (node.id && !['app', 'search', 'message'].includes(node.id)) bad.push('id ' + node.id);
  }
  return bad;
}"""


def harmless(page: Page) -> None:
    assert page.evaluate(HARMFUL) == []


@pytest.fixture
def no_dialog(page: Page) -> list[str]:
    """What dialogs were opened by scripts."""
    opened: list[str] = []

    def note(dialog: Dialog) -> None:
        opened.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", note)
    return opened


def test_a_models_words_are_only_text(page: Page, model: GatedModel, no_dialog: list[str]) -> None:
    half = len(CORPUS) // 2
    model.will_answer("\n\n".join([*CORPUS[:half], "END-ONE"]), "\n\n".join([*CORPUS[half:], "END-TWO"]))
    for end in ("END-ONE", "END-TWO"):
        say(page, "speak")
        see_answer(page, end)
        see_idle(page)
        harmless(page)
    page.reload()
    see_answer(page, "END-TWO")
    harmless(page)
    assert no_dialog == []


def test_each_attack_alone_is_only_text(page: Page, model: GatedModel, no_dialog: list[str]) -> None:
    model.will_answer(*(f"{words}\n\nEND-{place}." for place, words in enumerate(CORPUS)))
    for place in range(len(CORPUS)):
        say(page, "next")
        see_answer(page, f"END-{place}.")
        harmless(page)
    assert no_dialog == []


def test_a_tools_output_is_only_text(
    page: Page, model: GatedModel, server: WebServer, no_dialog: list[str]
) -> None:
    (server.project / "attack.txt").write_text("\n".join(CORPUS), encoding="utf-8")
    wrong = Call("read_file", {"path": "attack.txt", "<img src=x onerror=window.pwned=41>": "x"})
    model.will_answer([Call("read_file", {"path": "attack.txt"}), wrong], "Read.")
    say(page, "read it")
    see_answer(page, "Read.")
    for row in page.locator("details.tool summary").all():
        row.click()
    expect(page.locator("details.tool .code").first).to_contain_text("script")
    expect(page.locator("details.tool .output").last).to_contain_text("onerror")
    harmless(page)
    assert no_dialog == []


def test_what_a_person_says_is_only_text(page: Page, model: GatedModel, no_dialog: list[str]) -> None:
    model.will_answer("Fine.")
    say(page, "\n".join(CORPUS))
    see_answer(page, "Fine.")
    expect(entries(page).first).to_contain_text("<")
    harmless(page)
    assert no_dialog == []


def test_a_picture_elsewhere_is_a_link_and_is_not_fetched(page: Page, model: GatedModel) -> None:
    asked: list[str] = []

    def note(request: Request) -> None:
        if "track" in request.url:
            asked.append(request.url)

    page.on("request", note)
    model.will_answer("![a cat](http://127.0.0.1:9/track.png) and [a link](javascript:alert(1)) END")
    say(page, "show me")
    see_answer(page, "END")
    link = answers(page).last.get_by_role("link", name="a cat")
    expect(link).to_have_attribute("rel", "noopener noreferrer nofollow")
    expect(answers(page).last.locator("img")).to_have_count(0)
    assert asked == []


def test_a_title_is_only_text(page: Page, model: GatedModel, server: WebServer, no_dialog: list[str]) -> None:
    model.will_answer("Yes.")
    say(page, "hello")
    see_answer(page, "Yes.")
    page.request.patch(f"{server.url}api/sessions/{session_id(page)}", data={"title": CORPUS[0]})
    page.reload()
    expect(entries(page).first).to_contain_text(CORPUS[0])
    harmless(page)
    assert no_dialog == []
