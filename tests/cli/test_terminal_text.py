"""Markdown, formulas and folds as the terminal shows them, without a terminal."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.text import Text

from holdfast.cli.terminal.folds import SHOWN_LINES, Folds, shortened
from holdfast.cli.terminal.formulas import formula_text
from holdfast.cli.terminal.inline_text import inline, source_place
from holdfast.cli.terminal.markdown import MarkdownLines
from holdfast.cli.terminal.theme import look_of
from holdfast.cli.terminal.tool_cards import ToolCards, running_tool
from holdfast.core.events import ToolFinished, ToolStarted

BLANKS = " " * 200_000


@pytest.mark.parametrize(
    ("tex", "text"),
    [
        (r"E = mc^2", "E = mc²"),
        (r"\frac{a+b}{2} \le \sqrt{x+1}", "(a+b)/2 ≤ √(x+1)"),
        (r"\sum_{i=0}^{n} x_i", "∑ᵢ₌₀ⁿ xᵢ"),
        (r"\frac{1}{2a}", "1/(2a)"),
        (r"\mathbb{R}^n \to \lambda", "ℝⁿ → λ"),
        (r"\begin{pmatrix} a & b \\ c & d \end{pmatrix}", "[a b; c d]"),
        (r"\frac{a}{b", "a/b"),
        (r"\unknown x", "unknown x"),
    ],
)
def test_a_formula_reads_as_text(tex: str, text: str) -> None:
    assert formula_text(tex) == text


@given(st.text(alphabet="ab\\{}^_&$ fracsqtbegind[]()*`~|!<>#-\n", max_size=60))
def test_no_line_of_a_model_breaks_the_terminal(line: str) -> None:
    formula_text(line)
    shown = MarkdownLines()
    for part in line.split("\n"):
        shown.add(part)
    shown.end()


@pytest.mark.parametrize(
    "line", [f"# a{BLANKS}b", f"```{BLANKS}`", f"| a |\n|{BLANKS}x", f"| a |\n|-{BLANKS}x"]
)
def test_a_line_of_many_blanks_is_shown_in_no_time(line: str) -> None:
    """With a pattern that tries every way to share out the blanks, this takes hours."""
    shown = MarkdownLines()
    assert [*(each for part in line.split("\n") for each in shown.add(part)), *shown.end()]


@pytest.mark.parametrize(
    ("name", "arguments", "output", "head"),
    [
        (
            "ask_user",
            '{"question": "Which one?", "choices": ["red", "blue"], "wide": true}',
            "ok",
            "ask_user Which one? red, blue true → ok",
        ),
        (
            "write_file",
            '{"path": "/tmp/a.toml", "text": "x"}',
            "/tmp/a.toml is outside the workspace",
            "write_file /tmp/a.toml → is outside the workspace",
        ),
    ],
    ids=["a list by its items", "what the call was about is said once"],
)
def test_the_head_of_a_call_is_in_plain_words(name: str, arguments: str, output: str, head: str) -> None:
    place = {"session_id": "s", "turn_id": "t", "call_id": "c", "name": name}
    call = running_tool(ToolStarted(**place, arguments=arguments), 0.0)
    shown, *_ = ToolCards(Folds()).lines(ToolFinished(**place, ok=False, output=output), call, 80)
    assert shown.plain == f"✗ {head}"


def test_what_went_wrong_is_said_whole_below_a_head_without_room_for_it() -> None:
    place = {"session_id": "s", "turn_id": "t", "call_id": "c", "name": "run_command"}
    why = "not allowed: the person refused this command, and said nothing more about it than that"
    shown = ToolCards(Folds()).lines(
        ToolFinished(**place, ok=False, output=f"[{why}]"),
        running_tool(ToolStarted(**place, arguments='{"command": "make all the things"}'), 0.0),
        60,
    )
    head, *below = [each.plain for each in shown]
    assert head == "✗ run_command make all the things"
    assert " ".join(each.strip() for each in below) == why
    assert len(below) == 2
    assert all(each.startswith("  ") and len(each) <= 60 for each in below)


@pytest.mark.parametrize(
    ("output", "head", "body"),
    [
        ("one\ntwo\n[exit code 1]\n", "exit code 1", ["one", "two"]),
        ("one\n[a] [b]", "a] [b", ["one"]),
        ("[" * 300_000, "", ["[" * 73]),
    ],
    ids=["an outcome", "two brackets", "brackets that are never closed"],
)
def test_the_head_of_a_command_says_how_it_ended(output: str, head: str, body: list[str]) -> None:
    event = ToolFinished(session_id="s", turn_id="t", call_id="c", name="run_command", ok=True, output=output)
    shown, *rest = ToolCards(Folds()).lines(event, None, 80)
    assert (f" → {head}" in shown.plain) == bool(head)
    assert [each.plain.strip()[:73] for each in rest] == body


@example("[[[*](a)", 6)
@example("$b_a$", 0)
@given(st.text(alphabet="ab *`[]()_$~\\", max_size=40), st.integers(0, 40))
def test_what_follows_a_place_in_the_shown_text_is_never_lost(line: str, shown: int) -> None:
    place = source_place(line, shown)
    assert 0 <= place <= len(line)
    # Marks may be shown as such once their other half is cut off, but no letter disappears.
    # A formula shows some as small ones.
    rest = unicodedata.normalize("NFKC", inline(line).plain[shown:])
    letters = [each for each in rest if each in "ab"]
    assert letters == [each for each in line[place:] if each in "ab"][-len(letters) :] or not letters


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("a **bold** and `code`", "a bold and code"),
        ("see [here](http://x.org) or <http://y.org>", "see here (http://x.org) or http://y.org"),
        ("**[a](http://x.org)** costs $5 or $10", "a (http://x.org) costs $5 or $10"),
        (r"with $x^2$ and \(y_1\), \*not this\*", "with x² and y₁, *not this*"),
        ("snake_case_name and 2*3*4", "snake_case_name and 2*3*4"),
    ],
)
def test_marks_within_a_line_become_styles(source: str, shown: str) -> None:
    assert inline(source).plain == shown


def test_code_has_colours_and_no_fences_and_a_docstring_keeps_its_colour() -> None:
    lines = MarkdownLines()
    code = ["```python", "def f():", '    """One', "    and two.", '    """', "```", "after"]
    shown = [each for line in code for each in lines.add(line) if isinstance(each, Text)]
    texts = [each.plain for each in shown]
    assert texts == ["  def f():", '      """One', "      and two.", '      """', "after"]
    first, second = ({str(span.style) for span in shown[at].spans} for at in (1, 2))
    assert first & second  # one style reaches over both lines


def test_a_failed_command_shows_its_traceback_and_others_their_beginning_and_end() -> None:
    lines = [f"line {number}" for number in range(50)]
    calm = shortened(lines)
    assert len(calm.first) + 1 + len(calm.last) == SHOWN_LINES
    assert calm.hidden == 50 - len(calm.first) - len(calm.last)
    failed = [
        *lines,
        "Traceback (most recent call last)",
        *(f'  File "{n}.py"' for n in range(20)),
        "KeyError: 'x'",
    ]
    told = shortened(failed, failed=True)
    assert list(told.last) == failed[50:]
    assert shortened(lines[:SHOWN_LINES], failed=True).hidden == 0


@pytest.mark.parametrize(
    ("variables", "name"),
    [({}, "dark"), ({"COLORFGBG": "0;15"}, "light"), ({"NO_COLOR": "1", "COLORFGBG": "0;15"}, "none")],
)
def test_the_look_is_found_in_the_environment(variables: dict[str, str], name: str) -> None:
    assert look_of("auto", variables).name == name
    assert look_of("light", variables).name == "light"
