"""The page stays quick: a small first view, 10,000 conversations in the list, 5,000 messages in one."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import BrowserContext, Page, Response, expect

from holdfast import SessionDB
from holdfast.core.contract import Message
from tests.web.page.browser_page import composer, entries
from tests.web.page.gated_model import GatedModel
from tests.web.page.web_server import WebServer

pytestmark = pytest.mark.slow

SESSIONS = 10_000
MESSAGES = 5_000
MOST_BYTES = 100_000
MOST_UNPACKED = 300_000
MOST_REQUESTS = 14
CROWD = 300
ONE = re.compile(r"/api/sessions/crowd-\d+$")


@pytest.fixture(scope="module")
def full_server(tmp_path_factory: pytest.TempPathFactory, _model: GatedModel) -> Iterator[WebServer]:
    """A server whose person has talked a lot."""
    server = WebServer(tmp_path_factory.mktemp("full"), _model.url)
    server.database.parent.mkdir(parents=True)
    with SessionDB(server.database) as db:
        fill(db)
    server.start()
    yield server
    server.stop()


def fill(db: SessionDB) -> None:
    def begin(place: int) -> None:
        db.create_session(f"s{place:05}", source="web", title=f"Conversation {place}")

    with ThreadPoolExecutor(32) as together:
        list(together.map(begin, range(SESSIONS)))
    said: list[Message] = []
    for start in range(0, MESSAGES, 2):
        said.append({"role": "user", "content": f"question {start}"})
        said.append({"role": "assistant", "content": f"answer {start + 1} " + "and more " * (start % 50)})
    db.sessions.append_messages("s00000", said)


def test_the_first_view_is_small(context: BrowserContext, server: WebServer) -> None:
    page = context.new_page()
    responses: list[Response] = []
    page.on("response", lambda response: responses.append(response))  # noqa: PLW0108 - the driver marks its handlers
    page.goto(server.link)
    expect(composer(page)).to_be_focused()
    expect(page.get_by_text("No conversations yet.")).to_be_visible()
    sizes = [each.request.sizes() for each in responses if "/events" not in each.url]
    total = sum(each["responseBodySize"] + each["responseHeadersSize"] for each in sizes)
    # The link with the token answers with a redirect to the page itself.
    requests = [each.url for each in responses if each.status != 303]
    assert len(requests) <= MOST_REQUESTS, requests
    assert total < MOST_BYTES
    unpacked = sum(len(each.body()) for each in responses if each.ok and "/events" not in each.url)
    assert unpacked < MOST_UNPACKED


def test_ten_thousand_conversations_scroll(context: BrowserContext, full_server: WebServer) -> None:
    page = context.new_page()
    page.goto(full_server.link)
    expect(entries(page).first).to_contain_text("Conversation")
    rows = page.locator(".rows")
    while (before := tall(page)) < 38 * SESSIONS:
        rows.evaluate("box => { box.scrollTop = box.scrollHeight }")
        page.wait_for_function("tall => document.querySelector('.rows ul').offsetHeight > tall", arg=before)
        assert entries(page).count() < 100
    expect(entries(page).filter(has_text="Conversation ").last).to_be_visible()
    assert entries(page).count() < 100
    assert slowest_frame(page, ".rows") < 250


def tall(page: Page) -> int:
    return int(page.evaluate("document.querySelector('.rows ul').offsetHeight"))


def test_a_crowd_of_new_conversations_is_read_as_a_list(
    context: BrowserContext, full_server: WebServer
) -> None:
    page = context.new_page()
    page.goto(full_server.link)
    expect(entries(page).first).to_be_visible()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if ONE.search(request.url) else None)
    with full_server.store() as db:
        for number in range(CROWD):
            db.create_session(f"crowd-{number}", source="test", title=f"Crowd {number}")
    expect(entries(page).filter(has_text=f"Crowd {CROWD - 1}")).to_be_visible()
    assert len(asked) < CROWD // 2


@pytest.mark.soak
def test_five_thousand_messages_scroll_both_ways(context: BrowserContext, full_server: WebServer) -> None:
    page = context.new_page()
    page.goto(full_server.link)
    page.goto(f"{full_server.url}#/s/s00000")
    expect(page.get_by_text(f"answer {MESSAGES - 1} ").last).to_be_in_viewport()
    first = page.locator(".cell .said").first
    while (before := first.inner_text()) != "question 0":
        page.locator(".scroll").evaluate("box => { box.scrollTop = 0 }")
        expect(first).not_to_have_text(before)
    expect(page.get_by_text("question 0", exact=True)).to_be_visible()
    assert page.locator(".cell").count() < 1_300
    assert slowest_frame(page, ".scroll") < 250
    page.get_by_role("button", name="Latest").click()
    expect(page.get_by_text(f"answer {MESSAGES - 1} ").last).to_be_in_viewport()


def test_a_hit_in_the_middle_of_a_long_conversation_is_landed_on(
    context: BrowserContext, full_server: WebServer
) -> None:
    page = context.new_page()
    page.goto(full_server.link)
    page.get_by_role("searchbox", name="Search all conversations").fill('"question 2222"')
    page.locator(".hits a").filter(has_text="question 2222").first.click()
    expect(page.locator(".cell.found")).to_contain_text("question 2222")
    expect(page.locator(".cell.found")).to_be_in_viewport()
    page.locator(".scroll").evaluate("box => { box.scrollTop = box.scrollHeight }")
    expect(page.get_by_text("question 2290", exact=True)).to_be_attached()


def slowest_frame(page: Page, box: str) -> float:
    """The longest time between two frames while somebody scrolls up and down, in milliseconds."""
    return float(
        page.evaluate(
            """async (name) => {
            const box = document.querySelector(name);
            const middle = box.scrollTop;
            let slowest = 0;
            let before = await new Promise(requestAnimationFrame);
            for (let step = 0; step < 60; step += 1) {
              box.scrollTop = middle + Math.sin(step / 6) * 1500;
              const now = await new Promise(requestAnimationFrame);
              slowest = Math.max(slowest, now - before);
              before = now;
            }
            return slowest;
        }""",
            box,
        )
    )
