"""The main paths in Firefox: signing in, talking, working, finding, choosing, files, a server that dies."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.web.page.firefox import ENTER, Firefox, FirefoxTab, installed
from tests.web.page.gated_model import Call, Gate, GatedModel
from tests.web.page.web_server import WebServer

pytestmark = pytest.mark.slow

COMPOSER = "document.querySelector('.composer textarea')"
PAGE_TEXT = "document.querySelector('.column')?.innerText ?? ''"
IDLE = "!document.querySelector('.stop')"
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
DARK = "rgb(22, 24, 28)"
LIGHT = "rgb(251, 250, 248)"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    """One Firefox for the file."""
    program = installed()
    if program is None:
        pytest.skip("there is no Firefox here: neither firefox-esr nor firefox is on the path")
    with Firefox(program, tmp_path_factory.mktemp("firefox")) as browser:
        yield browser


@pytest.fixture
def tab(browser: Firefox) -> Iterator[FirefoxTab]:
    tab = browser.new_tab()
    tab.resize(1280, 800)
    yield tab
    tab.close()


@pytest.fixture
def signed_in(tab: FirefoxTab, server: WebServer) -> FirefoxTab:
    """A tab that was opened with the link that the command printed."""
    tab.goto(server.link)
    tab.until(COMPOSER)
    return tab


def button(name: str) -> str:
    told = "(each.ariaLabel ?? each.textContent).trim()"
    return f"[...document.querySelectorAll('button')].find((each) => {told}.startsWith({json.dumps(name)}))"


def say(tab: FirefoxTab, text: str) -> None:
    tab.click(COMPOSER)
    tab.keys(text + ENTER)
    tab.until(f"{COMPOSER}.value === ''")


def see(tab: FirefoxTab, text: str) -> None:
    tab.until(f"({PAGE_TEXT}).includes({json.dumps(text)})")


def test_a_token_signs_in_and_a_wrong_one_is_said_to_be_wrong(tab: FirefoxTab, server: WebServer) -> None:
    tab.goto(f"{server.url}?token=wrong")
    tab.until("document.activeElement?.ariaLabel === 'Token'")
    tab.keys("still wrong" + ENTER)
    tab.until("document.querySelector('[role=alert]')?.innerText.startsWith('This is not the token')")
    tab.until("document.activeElement?.ariaLabel === 'Token'")
    tab.run("document.activeElement.select()")
    tab.keys(server.link + ENTER)
    tab.until(COMPOSER)
    assert "token" not in tab.run("location.href")


def test_an_answer_streams_in_is_laid_out_and_can_be_stopped(
    signed_in: FirefoxTab, model: GatedModel
) -> None:
    tab, gate = signed_in, Gate()
    told = "fox.\n\n```python\nprint(1)\n```\n\n$\\left(\\frac{a}{b}\\right)$"
    model.will_answer(["Hello **there**, ", gate, told], ["The first half ", Gate()], "Whole.")
    say(tab, "hi from Firefox")
    see(tab, "Hello there,")
    tab.until("document.querySelector('.answer strong')?.textContent === 'there'")
    gate.open()
    tab.until(IDLE)
    tab.until("document.querySelector('.hljs-built_in')?.textContent === 'print'")
    tab.until("document.querySelector('math mfrac')")
    say(tab, "tell me all")
    see(tab, "The first half")
    tab.click("document.querySelector('.stop')")
    see(tab, "Stopped here.")
    tab.until(IDLE)
    say(tab, "again")
    see(tab, "Whole.")
    tab.reload()
    see(tab, "Whole.")
    see(tab, "The first half")
    assert tab.run("document.querySelectorAll('.row.user').length") == 3


def test_a_command_runs_when_it_is_allowed_and_not_when_it_is_refused(
    signed_in: FirefoxTab, model: GatedModel, server: WebServer
) -> None:
    tab = signed_in
    (server.project / "fox.txt").write_text("red\n")
    model.will_answer(
        [Call("edit_file", {"path": "fox.txt", "old": "red", "new": "brown"})],
        [Call("run_command", {"command": "touch allowed.txt"})],
        "Made.",
        [Call("run_command", {"command": "touch refused.txt"})],
        "Then not.",
    )
    say(tab, "make it brown")
    tab.until("document.querySelector('.ask .subject')?.innerText.includes('touch allowed.txt')")
    tab.click(button("Allow"))
    see(tab, "Made.")
    tab.until("document.querySelector('.diff .added')?.textContent.includes('brown')")
    tab.until(IDLE)
    say(tab, "and another")
    tab.until("document.querySelector('.ask .subject')?.innerText.includes('touch refused.txt')")
    tab.click(button("Refuse"))
    see(tab, "Then not.")
    assert (server.project / "fox.txt").read_text() == "brown\n"
    assert (server.project / "allowed.txt").exists()
    assert not (server.project / "refused.txt").exists()


def test_a_search_opens_the_message_that_it_finds(signed_in: FirefoxTab, model: GatedModel) -> None:
    tab = signed_in
    model.will_answer("The zebra sleeps.")
    say(tab, "who sleeps?")
    see(tab, "The zebra sleeps.")
    tab.until(IDLE)
    tab.click(button("New chat"))
    tab.until("document.querySelector('.hello')")
    tab.click("document.querySelector('#search')")
    tab.keys("zebra")
    tab.until("document.querySelector('.hits mark')?.textContent === 'zebra'")
    tab.click("document.querySelector('.hits .hit-group li a')")
    tab.until("document.querySelector('.cell.found')?.innerText.includes('zebra')")


def test_a_model_is_chosen_and_a_setting_saved(signed_in: FirefoxTab, model: GatedModel) -> None:
    tab = signed_in
    model.models = ["gated", "other"]
    model.will_answer("From the other one.")
    tab.click(button("Choose a model"))
    tab.until("document.activeElement?.matches('dialog[open] input')")
    tab.keys("oth" + ENTER)
    tab.until("!document.querySelector('dialog[open]')")
    say(tab, "who are you?")
    see(tab, "From the other one.")
    assert model.asked[0]["model"] == "other"
    tab.chord("k")
    tab.until("document.activeElement?.matches('dialog[open] input')")
    tab.keys("settings" + ENTER)
    steps = "document.getElementById('setting-limits.max_steps')"
    tab.click(steps)
    tab.run(f"{steps}.select()")
    tab.keys("33" + ENTER)
    tab.until("document.querySelector('.panel .good')?.innerText === 'Saved.'")
    assert tab.run(f"{steps}.value") == "33"


def test_files_are_attached_and_a_conversation_is_exported(
    signed_in: FirefoxTab, browser: Firefox, model: GatedModel, tmp_path: Path
) -> None:
    tab = signed_in
    notes, picture = tmp_path / "notes.txt", tmp_path / "dot.png"
    notes.write_text("the code is 4711")
    picture.write_bytes(PIXEL)
    model.will_answer("I have read them.")
    tab.choose_files("document.querySelector('.composer input[type=file]')", [notes, picture])
    tab.until("document.querySelectorAll('.attachments li').length === 2")
    say(tab, "read these")
    see(tab, "I have read them.")
    tab.until("document.querySelector('.bubble img.attached')?.naturalWidth === 1")
    assert "the code is 4711" in json.dumps(model.asked[0]["messages"])
    tab.click(button("More for this conversation"))
    tab.click(button("Export as Markdown"))
    saved = browser.downloaded()
    assert saved.suffix == ".md"
    assert "## Holdfast\n\nI have read them." in saved.read_text()


def test_what_a_turn_changed_is_seen_and_taken_back(
    signed_in: FirefoxTab, model: GatedModel, server: WebServer
) -> None:
    tab = signed_in
    (server.project / "den.txt").write_text("dug\n")
    model.will_answer(
        [Call("edit_file", {"path": "den.txt", "old": "dug", "new": "filled"})], "It is filled."
    )
    say(tab, "fill the den")
    see(tab, "It is filled.")
    tab.until(IDLE)
    tab.click(button("Changes"))
    tab.until("document.querySelector('.panel .diff .added')?.textContent.includes('filled')")
    tab.click(button("Close Files changed"))
    tab.click(button("Undo"))
    tab.click("document.querySelector('dialog[open] input[type=checkbox]')")
    tab.click(button("Take it back and the files"))
    tab.until("document.querySelector('dialog[open] li')?.innerText.includes('is as it was before')")
    assert (server.project / "den.txt").read_text() == "dug\n"
    tab.click("document.querySelector('dialog[open] button.primary')")
    tab.until(f"{COMPOSER}.value === 'fill the den'")


def test_a_drawing_is_previewed_and_a_prompt_is_kept_changed_and_removed(
    signed_in: FirefoxTab, model: GatedModel
) -> None:
    tab = signed_in
    model.will_answer("```csv\nname,age\nAda,36\n```\n\n```mermaid\nflowchart LR\n  A --> B\n```\n")
    say(tab, "draw")
    tab.until(IDLE)
    previews = (
        "[...document.querySelectorAll('.code-head button')].filter((each) => each.textContent === 'Preview')"
    )
    tab.until(f"{previews}.length === 2")
    # The page is told nothing of the frame but whether it could be drawn.
    tab.run("addEventListener('message', (event) => { globalThis.drawn = event.data.problem }), 0")
    for place in range(2):
        tab.run("globalThis.drawn = undefined, 0")
        tab.click(f"{previews}[{place}]")
        tab.until("globalThis.drawn === ''")
        tab.click("[...document.querySelectorAll('dialog[open] button')].at(-1)")
        tab.until("!document.querySelector('dialog[open]')")
    tab.click(COMPOSER)
    tab.keys("Say it as a fox.")
    tab.click(button("Prompts of your own"))
    tab.click(button("Keep a new one"))
    tab.until("document.activeElement?.matches('dialog[open] input')")
    tab.keys("Fox" + ENTER)
    tab.click(button("Change Fox"))
    tab.until("document.activeElement?.matches('dialog[open] input')")
    tab.keys(" two" + ENTER)
    tab.until("document.querySelector('dialog[open] .choices strong')?.textContent === 'Fox two'")
    tab.click(button("Remove Fox two"))
    tab.until("document.querySelector('dialog[open]')?.innerText.includes('None is kept yet.')")


def test_on_a_phone_everything_fits_and_the_list_opens_over_it(
    signed_in: FirefoxTab, model: GatedModel
) -> None:
    tab = signed_in
    tab.resize(390, 844)
    wide = "| a | b | c |\n|---|---|---|\n| " + " | ".join(["wide" * 20] * 3) + " |\n\n```\n" + "long " * 60
    model.will_answer(f"{wide}\n```\n\nAll of it.")
    say(tab, "hello from a phone")
    see(tab, "All of it.")
    tab.until(IDLE)
    assert tab.run("document.documentElement.scrollWidth") == 390
    assert tab.run("document.querySelector('.scroll').scrollWidth <= 390")
    tab.click("document.querySelector('.burger')")
    tab.click("document.querySelector('.entry.current a')")
    tab.until("!document.querySelector('.side-open')")
    tab.click(COMPOSER)
    assert tab.run(f"{COMPOSER}.getBoundingClientRect().bottom <= innerHeight")


def test_it_is_dark_where_the_machine_is_and_light_where_a_person_says_so(signed_in: FirefoxTab) -> None:
    tab = signed_in
    colour = "getComputedStyle(document.body).backgroundColor"
    assert tab.run(colour) == DARK
    tab.click(button("Settings"))
    tab.until("document.querySelector('#look-theme')")
    tab.run("document.querySelector('#look-theme').focus()")
    tab.keys("light")
    tab.until(f"{colour} === '{LIGHT}'")
    tab.reload()
    tab.until(f"{colour} === '{LIGHT}'")


def test_a_message_written_while_the_server_was_gone_is_sent_once(
    tab: FirefoxTab, model: GatedModel, own_server: WebServer
) -> None:
    model.will_answer("Hello.", "After the crash.")
    tab.goto(own_server.link)
    say(tab, "first")
    see(tab, "Hello.")
    tab.until(IDLE)
    own_server.kill()
    tab.until("document.querySelector('.banner')?.innerText.includes('can\\'t be reached')")
    tab.click(COMPOSER)
    tab.keys("still here?" + ENTER)
    tab.until("document.querySelector('.composer .held')?.innerText.includes('Not sent yet.')")
    assert tab.run(f"{COMPOSER}.value") == "still here?"
    own_server.start()
    see(tab, "After the crash.")
    assert tab.run("document.querySelectorAll('.row.user').length") == 2
