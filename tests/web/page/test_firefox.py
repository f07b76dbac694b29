"""The main paths in Firefox: talking, working, finding, settings, and a server that dies."""

import asyncio
from pathlib import Path

import pytest

from tests.web.page.firefox import ENTER, Firefox, installed
from tests.web.page.gated_model import Call, Gate, GatedModel
from tests.web.page.web_server import WebServer

pytestmark = pytest.mark.slow

COMPOSER = "document.querySelector('.composer textarea')"
PAGE_TEXT = "document.querySelector('.column')?.innerText ?? ''"
IDLE = "!document.querySelector('.stop')"


def button(name: str) -> str:
    all_of_them = "[...document.querySelectorAll('button')]"
    return f"{all_of_them}.find((each) => each.textContent.trim().startsWith('{name}'))"


async def say(firefox: Firefox, text: str) -> None:
    await firefox.until(COMPOSER)
    await firefox.run(f"{COMPOSER}.focus()")
    await firefox.keys(text + ENTER)
    await firefox.until(f"{COMPOSER}.value === ''")


async def see(firefox: Firefox, text: str) -> None:
    await firefox.until(f"({PAGE_TEXT}).includes({text!r})")


def test_a_person_talks_works_finds_and_goes_on_in_firefox(
    own_server: WebServer, model: GatedModel, tmp_path: Path
) -> None:
    program = installed()
    if program is None:
        pytest.skip("there is no Firefox here: neither firefox-esr nor firefox is on the path")
    asyncio.run(story(program, tmp_path / "profile", own_server, model))
    assert (own_server.project / "firefox.txt").exists()


async def story(program: str, profile: Path, server: WebServer, model: GatedModel) -> None:
    (server.project / "fox.txt").write_text("red\n")
    gate = Gate()
    model.will_answer(
        ["Hello **there**, ", gate, "fox.\n\n```python\nprint(1)\n```\n\n$\\left(\\frac{a}{b}\\right)$"],
        [Call("edit_file", {"path": "fox.txt", "old": "red", "new": "brown"})],
        [Call("run_command", {"command": "touch firefox.txt"})],
        "Made.",
        "After the crash.",
    )
    async with Firefox(program, profile) as firefox:
        await firefox.goto(f"{server.url}?token=wrong")
        await firefox.until("document.activeElement?.ariaLabel === 'Token'")
        await firefox.keys(server.link + ENTER)
        await say(firefox, "hi from Firefox")
        await see(firefox, "Hello there,")
        gate.open()
        await firefox.until(IDLE)
        await firefox.until("document.querySelector('.hljs-built_in')?.textContent === 'print'")
        await firefox.until("document.querySelector('math mfrac')")
        await say(firefox, "make it brown")
        await firefox.click(button("Allow"))
        await see(firefox, "Made.")
        await firefox.until("document.querySelector('.diff .added')?.textContent.includes('brown')")
        await firefox.reload()
        await see(firefox, "Made.")
        assert await firefox.run("document.querySelectorAll('.row.user').length") == 2
        await firefox.run("document.querySelector('#search').focus()")
        await firefox.keys("brown")
        await firefox.click("document.querySelector('.hits .hit-group li a')")
        await firefox.until("document.querySelector('.cell.found')")
        await firefox.chord("k")
        await firefox.until("document.activeElement?.matches('dialog[open] input')")
        await firefox.keys("settings" + ENTER)
        await firefox.until("document.querySelector('#look-theme')")
        theme = "document.querySelector('#look-theme')"
        await firefox.run(f"({theme}.value = 'dark', {theme}.dispatchEvent(new Event('change')), true)")
        assert await firefox.run("getComputedStyle(document.body).backgroundColor") == "rgb(22, 24, 28)"
        server.kill()
        await firefox.run(f"{COMPOSER}.focus()")
        await firefox.keys("still here?" + ENTER)
        await firefox.until("document.querySelector('.composer .problem')?.innerText.includes('Not sent.')")
        assert await firefox.run(f"{COMPOSER}.value") == "still here?"
        server.start()
        await firefox.until("!document.querySelector('.banner')")
        await firefox.run(f"{COMPOSER}.focus()")
        await firefox.keys(ENTER)
        await see(firefox, "After the crash.")
