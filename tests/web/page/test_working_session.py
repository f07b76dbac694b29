"""A working session of 15 turns: edits, a test that fails, its mending. SHOTS names a folder for pictures."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.web.page.browser_page import say, see_answer, see_idle
from tests.web.page.gated_model import Call, GatedModel, Part, Thought
from tests.web.page.web_server import WebServer

pytestmark = [pytest.mark.slow, pytest.mark.soak, pytest.mark.timeout(900)]

TEST = """from prices import total


def test_total_with_discount():
    assert total([10, 20], discount=0.1) == 27
"""
CODE = """def total(prices, discount=0):
    return sum(prices) - discount
"""
MENDED = """    return sum(prices) * (1 - discount)"""
ANSWER = """The discount was subtracted as an amount; it is a **share**:

| | before | after |
|---|---:|---:|
| `total([10, 20], 0.1)` | 29.9 | 27.0 |

$$\\text{total} = \\left(\\sum_i p_i\\right) \\cdot (1 - d)$$

```python
def total(prices, discount=0):
    return sum(prices) * (1 - discount)
```
"""
RUN = Call("run_command", {"command": "python3 -m pytest -q test_prices.py 2>&1 || python3 run_test.py"})
TASKS = ["Read the code", "Run the test", "Mend the total", "Write a note"]


def todo(done: int) -> Call:
    states = ["done"] * done + ["in_progress"] + ["pending"] * len(TASKS)
    return Call("todo", {"items": [{"text": t, "state": s} for t, s in zip(TASKS, states, strict=False)]})


TURNS: list[tuple[str, list[list[Part] | str]]] = [
    ("What is in this project?", [[Call("list_folder", {})], "A module `prices.py` with a test beside it."]),
    ("Make a plan to mend the failing test", [[Thought("Read first."), todo(0)], "I begin by reading."]),
    (
        "Read the code",
        [[Call("read_file", {"path": "prices.py"}), todo(1)], "`total` subtracts the discount."],
    ),
    ("Run the test", [[RUN], "It fails: 29.9 instead of 27."]),
    (
        "Mend it",
        [
            [
                Call(
                    "edit_file",
                    {"path": "prices.py", "old": "    return sum(prices) - discount", "new": MENDED},
                )
            ],
            ANSWER,
        ],
    ),
    ("Run it again", [[RUN, todo(3)], "It passes."]),
    (
        "Write a note about it",
        [[Call("write_file", {"path": "NOTES.md", "text": "# Notes\n\n- a share\n"})], "Written."],
    ),
    ("Where else is it used?", [[Call("search_files", {"pattern": "discount"})], "Only there."]),
    ("Show me the module as it is", [[Call("read_file", {"path": "prices.py"})], "As above."]),
    ("Explain it to a child", ["Ten percent off means that you pay nine parts of ten."]),
    ("As a diagram", ["```mermaid\nflowchart LR\n  Prices --> Sum --> Discount --> Total\n```\n"]),
    ("As a table for a sheet", ["```csv\nprice,share\n10,0.9\n20,0.9\n```\n"]),
    ("How sure are you?", ["Quite sure: the test checks it."]),
    ("Clean up", [[Call("run_command", {"command": "rm -rf __pycache__"})], "It is clean."]),
    ("Thanks", ["You are welcome."]),
]


@pytest.fixture
def project_server(tmp_path: Path, _model: GatedModel) -> Iterator[WebServer]:
    server = WebServer(tmp_path / "shop", _model.url, HOLDFAST_TOOLS_ALLOW='["command:python3 *"]')
    (server.project / "prices.py").write_text(CODE)
    (server.project / "test_prices.py").write_text(TEST)
    (server.project / "run_test.py").write_text(
        "import test_prices\ntest_prices.test_total_with_discount()\n"
    )
    server.start()
    yield server
    server.stop()


def picture(page: Page, name: str) -> None:
    if folder := os.environ.get("SHOTS"):
        page.screenshot(path=str(Path(folder) / f"{name}.png"))


def at(page: Page, text: str, name: str) -> None:
    """Scroll a message to the top, and take a picture."""
    if os.environ.get("SHOTS"):
        row = page.locator(".said").get_by_text(text, exact=True).first
        row.evaluate("element => element.scrollIntoView({ block: 'start' })")
        picture(page, name)


VIEWS = (
    ("l", "models", ".choices li:nth-child(2)"),
    ("o", "tools", ".choices li:nth-child(2)"),
    ("p", "prompts", "dialog .muted"),
    ("z", "undo", "dialog .buttons"),
    ("?", "keys", ".keys"),
    ("s", "settings", ".settings .setting"),
    ("u", "usage", ".panel .total"),
    ("d", "changes", ".file-change .diff .added"),
)


def views(page: Page, name: str) -> None:
    """Pictures of the dialogs and panels, each opened by its key."""
    if not os.environ.get("SHOTS"):
        return
    for key, view, seen in VIEWS:
        page.locator(".scroll").focus()
        page.keyboard.press(key)
        expect(page.locator(seen).first).to_be_visible()
        picture(page, f"{name}-view-{view}")
        page.keyboard.press("Escape")
        expect(page.locator("dialog[open], aside.panel")).to_have_count(0)
    page.keyboard.press("Control+k")
    page.keyboard.type("exp")
    picture(page, f"{name}-view-palette")


def test_a_person_works_for_fifteen_turns(
    chromium: Browser, project_server: WebServer, model: GatedModel
) -> None:
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.goto(project_server.link)
    expect(page.get_by_role("button", name="Model: gated")).to_be_visible()
    picture(page, "00-first")
    for place, (text, parts) in enumerate(TURNS):
        model.will_answer(*parts)
        say(page, text)
        if text == "Clean up":
            card = page.get_by_role("region", name="The agent asks for your approval")
            expect(card.locator("button.primary")).to_have_text("Refuse")
            picture(page, "14-ask")
            card.get_by_role("button", name="Allow once").click()
        see_idle(page)
        last = parts[-1]
        assert isinstance(last, str)
        expect(page.locator(".maths")).to_have_count(0)
        see_answer(page, re.split(r"[*|`$\n]", last.strip("`"))[0].strip() or "flowchart")
        picture(page, f"{place + 1:02}-wide")
    expect(page.locator("details.tool.failed .output")).to_contain_text("AssertionError")
    address = page.url
    for scheme in ("light", "dark"):
        for width, height, kind in ((1280, 800, "wide"), (390, 844, "phone")):
            other = chromium.new_context(
                viewport={"width": width, "height": height},
                color_scheme="dark" if scheme == "dark" else "light",
                is_mobile=kind == "phone",
                has_touch=kind == "phone",
            )
            looking = other.new_page()
            looking.goto(project_server.link)
            looking.goto(address)
            see_answer(looking, "You are welcome.")
            assert not looking.evaluate("document.documentElement.scrollWidth > innerWidth")
            at(looking, "Run the test", f"{scheme}-{kind}-test")
            at(looking, "Mend it", f"{scheme}-{kind}-edit")
            at(looking, "As a diagram", f"{scheme}-{kind}-code")
            views(looking, f"{scheme}-{kind}")
            other.close()
    context.close()
