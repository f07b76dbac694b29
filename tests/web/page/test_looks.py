"""How the page looks: what stands in one row, what keeps its distance, and what must not shout."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.web.page.browser_page import answers, composer, say, see_answer, see_idle
from tests.web.page.gated_model import Call, Gate, GatedModel

pytestmark = pytest.mark.slow


def box(found: Locator) -> dict[str, float]:
    """Where an element stands."""
    place = found.bounding_box()
    assert place is not None
    x, y, width, height = place["x"], place["y"], place["width"], place["height"]
    return {"x": x, "y": y, "width": width, "bottom": y + height}


def test_the_views_stand_in_one_row_below_the_list(page: Page) -> None:
    views = page.locator(".side-views button")
    expect(views).to_have_text(["Memory", "Usage", "Settings", "Chats"])
    assert len({round(box(each)["y"]) for each in views.all()}) == 1


def test_a_file_that_was_written_has_its_name_above_the_text_and_the_result_below(
    page: Page, model: GatedModel
) -> None:
    model.will_answer([Call("write_file", {"path": "looks.md", "text": "# Notes\n"})], "Written.")
    say(page, "write it")
    see_answer(page, "Written.")
    see_idle(page)
    card = page.locator("details.tool .code")
    inset = "element => parseFloat(getComputedStyle(element).paddingLeft)"
    assert card.locator(".code-head").evaluate(inset) == card.locator("pre").evaluate(inset)
    result = page.locator("details.tool .tool-body > p")
    expect(result).to_contain_text("created looks.md")
    assert box(result)["y"] - box(card)["bottom"] >= 6


def test_scrolling_moves_nothing_sideways_and_bars_are_thin(page: Page, model: GatedModel) -> None:
    model.will_answer("Short.", "\n\n".join(f"paragraph {number}" for number in range(80)))
    say(page, "one")
    see_answer(page, "Short.")
    before = box(page.locator(".column"))
    say(page, "many")
    see_answer(page, "paragraph 79")
    see_idle(page)
    assert page.locator(".scroll").evaluate("each => each.scrollHeight > each.clientHeight")
    after = box(page.locator(".column"))
    assert (before["x"], before["width"]) == (after["x"], after["width"])
    for place in (".scroll", ".entries, .list, .sidebar"):
        width = page.locator(place).first.evaluate("each => getComputedStyle(each).scrollbarWidth")
        assert width == "thin", place


def test_no_outline_is_drawn_around_what_a_person_clicked(page: Page, model: GatedModel) -> None:
    model.will_answer("Hello.")
    say(page, "hi")
    see_answer(page, "Hello.")
    outline = "each => getComputedStyle(each).outlineStyle"
    composer(page).click()
    assert composer(page).evaluate(outline) == "none"
    answers(page).last.click()
    scrolled = page.locator(".scroll")
    scrolled.click(position={"x": 5, "y": 5})
    assert scrolled.evaluate(outline) == "none"
    for name in ("Memory", "Usage", "Settings", "Chats"):
        page.locator(".side-views").get_by_role("button", name=name).click()
        panel = page.get_by_role("complementary", name=name)
        expect(panel).to_be_focused()
        assert panel.evaluate(outline) == "none"
        panel.get_by_role("button", name=f"Close {name}").click()


def test_a_time_and_its_unit_are_never_broken_apart(page: Page, model: GatedModel) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    gate = Gate()
    model.will_answer([gate, "Late."])
    say(page, "wait")
    spent = page.locator(".status .elapsed")
    expect(spent).to_have_text(re.compile(r"^\d+(\.\d)? s$"))
    spent.evaluate("each => { each.parentElement.style.width = '20px'; }")
    lines = spent.evaluate("each => each.getClientRects().length")
    gate.open()
    see_answer(page, "Late.")
    assert lines == 1


def test_an_ask_leaves_the_message_field_in_view_and_its_loud_button_is_the_safe_one(
    page: Page, model: GatedModel
) -> None:
    page.set_viewport_size({"width": 390, "height": 700})
    long = "rm -rf " + " ".join(f"folder-{number}" for number in range(120))
    model.will_answer([Call("run_command", {"command": long})], "Then not.")
    say(page, "clean up")
    card = page.get_by_role("region", name="The agent asks for your approval")
    expect(card.locator("button.primary")).to_have_text(["Refuse"])
    refuse = card.get_by_role("button", name="Refuse")
    expect(refuse).to_be_in_viewport()
    assert box(page.locator(".dock"))["bottom"] <= box(page.locator(".composer"))["y"]
    expect(composer(page)).to_be_in_viewport()
    assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
    refuse.click()
    see_answer(page, "Then not.")


def test_on_a_phone_the_actions_of_a_turn_are_whole_and_a_saved_setting_is_said_in_view(
    page: Page, model: GatedModel
) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    model.will_answer([Call("write_file", {"path": "phone.txt", "text": "x\n"})], "Written.")
    say(page, "write it")
    see_answer(page, "Written.")
    see_idle(page)
    actions = page.locator(".row.end .actions")
    expect(actions.get_by_role("button", name="Changes")).to_be_visible()
    assert actions.evaluate("each => each.scrollWidth <= each.clientWidth")
    page.get_by_role("button", name="Conversations", exact=True).click()
    page.get_by_role("button", name="Settings").click()
    steps = page.get_by_label("Requests to the model")
    steps.fill("33")
    steps.press("Enter")
    expect(page.get_by_text("Saved.", exact=True)).to_be_in_viewport()
    expect(steps).to_have_value("33")
