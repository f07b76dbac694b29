"""Work on the page: cards for changes, tasks and commands, code with room, previews, and what a model is."""

import io
import re

import pytest
from playwright.sync_api import FilePayload, Page, Route, expect

from tests.tools.test_documents import pdf
from tests.web.page.browser_page import answers, composer, say, see_answer, see_idle
from tests.web.page.gated_model import Call, Gate, GatedModel
from tests.web.page.web_server import WebServer

pytestmark = pytest.mark.slow

LONG_CODE = (
    "```python\n" + "\n".join(f"line_{number} = {number}  # a comment" for number in range(120)) + "\n```\n"
)


def test_an_edit_is_a_diff_a_list_is_a_list_and_a_failing_command_shows_its_end(
    page: Page, model: GatedModel, server: WebServer
) -> None:
    (server.project / "sum.py").write_text("def add(a, b):\n    return a - b\n")
    (server.project / "plan.md").write_text("first\nthen\n")
    todo = [{"text": "read it", "state": "done"}, {"text": "mend it", "state": "in_progress"}]
    failing = "for i in $(seq 40); do echo line $i; done; echo 'AssertionError: 1 != 3' >&2; exit 1"
    model.will_answer(
        [Call("todo", {"items": todo})],
        [Call("read_file", {"path": "sum.py"})],
        [Call("run_command", {"command": failing})],
        [Call("edit_file", {"path": "sum.py", "old": "    return a - b", "new": "    return a + b"})],
        [Call("write_file", {"path": "note.md", "text": "# Done\n"})],
        [Call("write_file", {"path": "plan.md", "text": "first\nlast\n"})],
        "It is mended.",
    )
    say(page, "mend it")
    page.get_by_role("region", name="The agent asks for your approval").get_by_role(
        "button", name="Allow"
    ).click()
    see_answer(page, "It is mended.")
    see_idle(page)
    for _ in ("as it streamed", "as it is stored"):
        tasks = page.get_by_role("list", name="Tasks").get_by_role("listitem")
        expect(tasks).to_have_text([re.compile("read it, done"), re.compile("mend it, in work")])
        diff = page.get_by_role("region", name="Changes to sum.py")
        expect(diff.locator(".removed")).to_contain_text("return a - b")
        expect(diff.locator(".added")).to_contain_text("return a + b")
        failed = page.locator("details.tool.failed")
        expect(failed.locator(".output")).to_contain_text("AssertionError: 1 != 3")
        expect(failed.locator(".output")).not_to_contain_text("line 2\n")
        failed.get_by_role("button", name=re.compile("Show all")).click()
        expect(failed.locator(".output")).to_contain_text("line 2\n")
        written = page.locator("details.tool", has_text="write_file")
        expect(written.filter(has_text="note.md").locator(".code")).to_contain_text("# Done")
        rewritten = page.get_by_role("region", name="Changes to plan.md")
        expect(rewritten.locator(".removed")).to_have_text("- then\n")
        expect(rewritten.locator(".added")).to_have_text("+ last\n")
        read = page.locator("details.tool", has_text="read_file")
        read.locator("summary").click()
        expect(read.locator(".code-head")).to_contain_text("sum.py, from line 1")
        expect(read.locator("code")).not_to_contain_text("1\t")
        page.reload()


def test_the_time_in_which_a_person_decides_is_not_the_tools(
    page: Page, model: GatedModel, server: WebServer
) -> None:
    model.will_answer([Call("run_command", {"command": "echo quick > quick.txt"})], "Done.")
    say(page, "do it")
    card = page.get_by_role("region", name="The agent asks for your approval")
    expect(card.get_by_text(re.compile(r"(9|10) min left"))).to_be_visible()
    # The page's clock shows that three seconds went by.
    page.wait_for_function("begun => Date.now() - begun > 3000", arg=page.evaluate("Date.now()"), polling=200)
    card.get_by_role("button", name="Allow").click()
    see_answer(page, "Done.")
    state = page.locator("details.tool .state")
    assert float(state.inner_text().split()[0]) < 3
    page.reload()
    see_answer(page, "Done.")
    assert float(state.inner_text().split()[0]) < 3
    page.get_by_role("button", name="Timeline").click()
    expect(page.locator(".timeline")).to_contain_text("Waiting for you · run_command")


def test_long_code_is_whole_follows_the_stream_and_wraps_folds_and_expands(
    page: Page, model: GatedModel
) -> None:
    gate = Gate()
    half = len(LONG_CODE) // 2
    model.will_answer([LONG_CODE[:half], gate, LONG_CODE[half:]])
    say(page, "write a lot")
    block = answers(page).last.locator(".code")
    expect(block).to_contain_text("line_40 =")
    assert block.locator("pre").evaluate("pre => pre.scrollHeight - pre.clientHeight") <= 1
    assert page.locator(".scroll").evaluate("box => box.scrollHeight - box.scrollTop - box.clientHeight") < 80
    gate.open()
    see_idle(page)
    expect(block).to_contain_text("line_119 =")
    assert page.locator(".scroll").evaluate("box => box.scrollHeight - box.scrollTop - box.clientHeight") < 80
    block.get_by_role("button", name="Wrap").click()
    assert block.locator("pre").evaluate("pre => getComputedStyle(pre).whiteSpace") == "pre-wrap"
    block.get_by_role("button", name="Fold", exact=True).click()
    assert block.evaluate("box => box.clientHeight") < 400
    block.get_by_role("button", name="Show all 120 lines").click()
    block.get_by_role("button", name="Expand").click()
    sheet = page.get_by_role("dialog", name="Code, python")
    expect(sheet).to_contain_text("line_119 =")
    page.keyboard.press("Escape")
    expect(sheet).to_have_count(0)
    expect(block.get_by_role("button", name="Expand")).to_be_focused()


def test_what_a_model_draws_is_previewed_in_a_frame_that_reaches_nothing(
    page: Page, model: GatedModel, server: WebServer
) -> None:
    hostile = (
        "```html\n<h1>Hello</h1><script>document.title='ran';"
        "try { top.document.title = 'pwned' } catch (e) { document.body.append('kept out') }\n"
        f"fetch('{server.url}api/status').then(() => document.body.append('reached'), "
        "() => document.body.append(' no network'))</script>\n```\n"
    )
    drawn = (
        hostile + '```csv\nname,age\n"Ada, L.",36\n```\n'
        "```svg\n<svg viewBox='0 0 10 10'><circle cx='5' cy='5' r='4'/></svg>\n```\n"
        "```mermaid\nflowchart LR\n  A[Start] --> B[End]\n```\n"
    )
    model.will_answer(drawn)
    say(page, "draw")
    see_idle(page)
    frame = page.frame_locator("dialog iframe")
    shown = (
        ("html", frame.locator("body"), "kept out no network"),
        ("csv", frame.locator("td").first, "Ada, L."),
        ("svg", frame.locator("circle"), ""),
        ("mermaid", frame.locator("svg").first, "Start"),
    )
    for kind, found, text in shown:
        answers(page).last.locator(".code", has=page.locator(".code-head", has_text=kind)).get_by_role(
            "button", name="Preview"
        ).click()
        expect(found).to_contain_text(text)
        page.get_by_role("button", name="Close", exact=True).click()
    assert "pwned" not in page.title()


def test_a_preview_has_the_colours_that_the_person_chose(page: Page, model: GatedModel) -> None:
    model.will_answer(
        "```html\n<style>p { color: rgb(1, 2, 3) } @media (prefers-color-scheme: dark) "
        "{ p { color: rgb(9, 9, 9) } }</style><p>Hello</p>\n```\n"
        "```csv\nname,age\nAda,36\n```\n"
        "```svg\n<svg viewBox='0 0 10 10'><circle cx='5' cy='5' r='4'/></svg>\n```\n"
        "```mermaid\nflowchart LR\n  A[Start] --> B[End]\n```\n"
    )
    say(page, "draw")
    see_idle(page)
    frame = page.frame_locator("dialog iframe")
    seen = {
        "html": (frame.locator("p"), "each => getComputedStyle(each).color"),
        "csv": (
            frame.locator("th").first,
            "each => getComputedStyle(each.ownerDocument.body).backgroundColor",
        ),
        "svg": (frame.locator("svg"), "each => getComputedStyle(each).backgroundColor"),
        "mermaid": (
            frame.locator("svg").first,
            "each => getComputedStyle(each.ownerDocument.body).backgroundColor",
        ),
    }
    looks: dict[str, list[str]] = {}
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme="dark" if theme == "light" else "light")
        page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
        for kind, (found, colour) in seen.items():
            block = answers(page).last.locator(".code", has=page.locator(".code-head", has_text=kind))
            block.get_by_role("button", name="Preview").click()
            expect(found).to_be_visible()
            looks.setdefault(kind, []).append(found.evaluate(colour))
            page.get_by_role("button", name="Close", exact=True).click()
    assert looks == {
        "html": ["rgb(1, 2, 3)", "rgb(9, 9, 9)"],
        "csv": ["rgb(255, 255, 255)", "rgb(22, 24, 28)"],
        "svg": ["rgba(0, 0, 0, 0)", "rgb(246, 245, 242)"],
        "mermaid": ["rgb(255, 255, 255)", "rgb(22, 24, 28)"],
    }


def test_a_formula_has_parentheses_that_stretch(page: Page, model: GatedModel) -> None:
    model.will_answer(r"$$\left( \frac{\frac{a}{b}}{\frac{c}{d}} \right)$$")
    say(page, "a formula")
    see_idle(page)
    sign = answers(page).last.locator("math mo").first
    expect(sign).to_be_visible()
    page.evaluate("document.fonts.ready")
    fraction = answers(page).last.locator("math mfrac").first
    tall = "element => element.getBoundingClientRect().height"
    page.wait_for_function(
        """() => {
          const height = (name) => document.querySelector(name).getBoundingClientRect().height;
          return height('math mo') > 0.8 * height('math mfrac');
        }"""
    )
    assert sign.evaluate(tall) > 0.8 * fraction.evaluate(tall)


def test_a_toast_and_the_list_of_keys_cover_nothing(page: Page, model: GatedModel) -> None:
    page.set_viewport_size({"width": 1000, "height": 520})
    model.will_answer("One.", "Two.")
    say(page, "one")
    see_answer(page, "One.")
    page.get_by_role("button", name="Branch").last.click()
    toast = page.locator(".toast")
    expect(toast).to_be_visible()
    below = composer(page).bounding_box()
    above = toast.bounding_box()
    assert below is not None
    assert above is not None
    assert above["y"] + above["height"] < below["y"]
    page.get_by_role("button", name="Keyboard shortcuts").click()
    box = page.get_by_role("dialog").bounding_box()
    assert box is not None
    assert box["y"] >= 16
    assert box["y"] + box["height"] <= 520 - 16


def test_a_turn_is_taken_back_with_its_files_and_its_usage_is_seen(
    page: Page, model: GatedModel, server: WebServer
) -> None:
    (server.project / "kept.txt").write_text("as it was\n")
    change = Call("edit_file", {"path": "kept.txt", "old": "as it was", "new": "as it is"})
    model.will_answer([change, Call("write_file", {"path": "fresh.txt", "text": "new\n"})], "Changed.")
    say(page, "change two files")
    see_answer(page, "Changed.")
    see_idle(page)
    page.get_by_role("button", name="Changes").click()
    panel = page.get_by_role("complementary", name="Files changed by this turn")
    expect(panel.get_by_role("region", name="Changes to kept.txt")).to_contain_text("+ as it is")
    expect(panel.locator("summary", has_text="fresh.txt")).to_contain_text("+1")
    page.get_by_role("button", name="Undo").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label(re.compile("and the files")).check()
    dialog.get_by_role("button", name="Take it back and the files").click()
    expect(dialog.get_by_role("listitem")).to_have_text(
        [
            re.compile("is removed again|is as it was before"),
            re.compile("is removed again|is as it was before"),
        ]
    )
    dialog.get_by_role("button", name="Close", exact=True).last.click()
    assert (server.project / "kept.txt").read_text() == "as it was\n"
    assert not (server.project / "fresh.txt").exists()
    expect(composer(page)).to_have_value("change two files")
    page.get_by_role("button", name="Usage").click()
    usage = page.get_by_role("complementary", name="Usage")
    expect(usage.get_by_role("list", name="By day").get_by_role("listitem")).to_have_count(1)
    usage.get_by_label("Group").select_option("model")
    expect(usage.get_by_role("list", name="By model")).to_contain_text("gated")


def test_changes_are_offered_for_a_turn_that_has_some_on_record_and_for_no_other(
    page: Page, model: GatedModel, server: WebServer
) -> None:
    (server.project / "named.txt").write_text("as it was\n")
    model.will_answer(
        [Call("run_command", {"command": "true"})],
        "Nothing changed.",
        [Call("run_command", {"command": "echo new > named.txt"})],
        "A named file changed.",
    )
    for words, told in (("look", "Nothing changed."), ("change", "A named file changed.")):
        say(page, words)
        page.get_by_role("button", name=re.compile("^Allow")).click()
        see_answer(page, told)
        see_idle(page)
    expect(page.get_by_role("button", name="Timeline")).to_have_count(2)
    expect(page.get_by_role("button", name="Changes")).to_have_count(1)
    page.reload()
    page.get_by_role("button", name="Changes").click()
    panel = page.get_by_role("complementary", name="Files changed by this turn")
    expect(panel.get_by_role("region", name="Changes to named.txt")).to_contain_text("+ new")


def test_a_formula_is_calm_while_it_is_written_and_is_never_seen_as_tex_again(
    page: Page, model: GatedModel
) -> None:
    held: list[Route] = []
    page.route("**/lib/temml.js", lambda route: held.append(route))  # noqa: PLW0108 - the driver marks its handlers
    gates = [Gate(), Gate(), Gate()]
    model.will_answer(["$$\n\\frac{a}", gates[0], "{b}\n$$\n\nand $x_1$ ", gates[1], "is", gates[2], " so."])
    say(page, "a formula")
    answer = answers(page).last
    expect(answer.locator(".maths.display")).to_have_text("\\frac{a}")
    expect(answer).not_to_contain_text("$$")
    gates[0].open()
    expect(answer.locator(".maths")).to_have_text(["\\frac{a}{b}", "x_1"])
    gates[1].open()
    expect(answer).to_contain_text("is")
    held[0].continue_()
    expect(answer.locator("math")).to_have_count(2)
    page.evaluate(
        """() => {
          window.tex = 0;
          const look = () => {
            window.tex += document.querySelectorAll('.maths').length;
            requestAnimationFrame(look);
          };
          requestAnimationFrame(look);
        }"""
    )
    gates[2].open()
    expect(answer).to_contain_text("so.")
    see_idle(page)
    expect(answer.locator("math")).to_have_count(2)
    assert page.evaluate("window.tex") == 0


def test_documents_are_read_by_the_server_and_one_that_is_none_is_refused(
    page: Page, model: GatedModel
) -> None:
    model.will_answer("I have read it.")
    files = page.get_by_label("Files to attach")
    files.set_input_files(
        [FilePayload(name="broken.pdf", mimeType="application/pdf", buffer=b"%PDF-1.4 nothing")]
    )
    composer(page).fill("read this")
    composer(page).press("Enter")
    refused = page.get_by_role("alert").filter(has_text="Not sent.")
    expect(refused).to_contain_text("broken.pdf")
    expect(composer(page)).to_have_value("read this")
    page.get_by_role("button", name="Remove broken.pdf").click()
    paper = FilePayload(
        name="paper.pdf", mimeType="application/pdf", buffer=pdf("Prune the pears.", "In May.")
    )
    plan = FilePayload(name="plan.docx", mimeType="", buffer=a_document("Plant the quinces."))
    files.set_input_files([paper, plan])
    composer(page).press("Enter")
    see_answer(page, "I have read it.")
    told = str(model.asked[0]["messages"][-1])
    assert all(text in told for text in ("Prune the pears.", "In May.", "Plant the quinces."))
    expect(page.get_by_role("article", name="You").last).to_contain_text("plan.docx")
    expect(page.get_by_role("article", name="You").last).to_contain_text("paper.pdf")


def a_document(text: str) -> bytes:
    """A Word document."""
    docx = pytest.importorskip("docx")
    written = io.BytesIO()
    document = docx.Document()
    document.add_paragraph(text)
    document.save(written)
    return written.getvalue()
