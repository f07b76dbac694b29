"""An answer on a real terminal while it is still being written."""

from collections.abc import Iterator

import pytest

from tests.cli.real_terminal import Home, Terminal
from tests.web.page.gated_model import Gate, GatedModel

pytestmark = pytest.mark.slow  # each starts a chat on a terminal of its own

WORDS = [f"w{number:03}" for number in range(400)]
SIGNS = "".join(chr(0x4E00 + number) for number in range(600))


@pytest.fixture
def model(home: Home) -> Iterator[GatedModel]:
    with GatedModel() as gated:
        home.settings |= {
            "HOLDFAST_MODEL_PROVIDER": "openai",
            "HOLDFAST_HOST_TITLES": "false",  # the model's answers are given out turn by turn
            "HOLDFAST_MODEL_BASE_URL": gated.url,
            "HOLDFAST_MODEL_API_KEY": "unused",
            "HOLDFAST_MODEL_NAME": "gated",
            "HOLDFAST_MODEL_CONTEXT_WINDOW": "128000",
        }
        yield gated


def asked(home: Home, rows: int, columns: int) -> Terminal:
    terminal = home.terminal("chat", rows=rows, columns=columns)
    terminal.see("> ")
    terminal.type("talk")
    return terminal


def finished(terminal: Terminal, last: str = "End.") -> str:
    """What stands on the terminal in the end, from the answer on."""
    terminal.see(last, "ready")
    assert terminal.leave() == 0
    assert terminal.screen.strange == []
    return terminal.screen.shown().split("> talk", 1)[1]


@pytest.mark.parametrize(("rows", "columns"), [(24, 80), (15, 30), (50, 200)])
def test_a_paragraph_is_seen_as_far_as_it_has_come(
    home: Home, model: GatedModel, rows: int, columns: int
) -> None:
    gates = [Gate(), Gate()]
    model.will_answer([" ".join(WORDS[:30]) + " ", gates[0], " ".join(WORDS[30:60]) + " ", gates[1], "End."])
    terminal = asked(home, rows, columns)
    terminal.see(" ".join(WORDS[:30]), "> ")
    gates[0].open()
    terminal.see(" ".join(WORDS[:60]), "> ")
    gates[1].open()
    assert " ".join(finished(terminal).split()).count(" ".join([*WORDS[:60], "End."])) == 1


@pytest.mark.parametrize(("rows", "columns"), [(24, 80), (10, 20), (6, 20)])
def test_a_line_longer_than_the_window_is_printed_once_and_the_prompt_stays(
    home: Home, model: GatedModel, rows: int, columns: int
) -> None:
    gate = Gate()
    model.will_answer([" ".join(WORDS) + " ", gate, "End."])
    terminal = asked(home, rows, columns)
    terminal.see(" ".join(WORDS), "> ")
    screen = terminal.screen.screen()
    assert any(row.startswith("> ") or row == ">" for row in screen), screen
    assert WORDS[-1] in "\n".join(screen)
    gate.open()
    assert " ".join(finished(terminal).split()).startswith(" ".join([*WORDS, "End."]))


@pytest.mark.parametrize("columns", [80, 21])
def test_wide_letters_and_words_longer_than_a_row_are_shown_whole(
    home: Home, model: GatedModel, columns: int
) -> None:
    gate = Gate()
    address = "https://example.org/" + "".join(WORDS[:50])
    model.will_answer([f"{SIGNS[:120]} {address} ", gate, f"{SIGNS[120:]}\nEnd."])
    terminal = asked(home, 24, columns)
    # The end of the text is drawn before the rows above it.
    terminal.until(lambda: (SIGNS[:120] + address) in "".join(terminal.screen.shown().split()))
    gate.open()
    assert "".join(finished(terminal).split()).startswith(SIGNS[:120] + address + SIGNS[120:] + "End.")


def test_a_list_and_code_look_the_same_before_and_after_they_end_and_a_table_is_set_when_it_is_complete(
    home: Home, model: GatedModel
) -> None:
    long = " ".join(WORDS[:40])
    rows = ["| name | note |", "|---|---:|", "| 漢字 | **first** |", "| b | $x^2$ |"]
    lines = [
        f"- **first** {long}",
        "```python",
        f"x = '{long}'",
        "```",
        "# Head",
        *rows,
        "See [here](http://x.org/a).",
    ]
    gates = [Gate() for _ in lines]
    model.will_answer([part for line, gate in zip(lines, gates, strict=True) for part in (line, gate, "\n")])
    terminal = asked(home, 24, 60)
    steps = [
        [f"• first {long}"],
        [],
        [f"x = '{long}'"],
        [],
        ["Head"],
        [],
        [],
        ["漢字"],
        ["x^2"],
        ["here (http://x.org/a)."],
    ]
    for number, gate in enumerate(gates):
        before = [each for step in steps[:number] for each in step if each != "x^2"]
        terminal.see(*before, *steps[number], "> ")
        gate.open()
    final = finished(terminal, "here (http://x.org/a).")
    assert [row.rstrip() for row in final.split("\n") if row.startswith(("name", "漢字", "b "))] == [
        "name    note",
        "漢字   first",
        "b         x²",
    ]
    assert "```" not in final
    assert "|" not in final


def test_however_fast_an_answer_comes_each_picture_has_the_prompt_and_what_was_typed(home: Home) -> None:
    """At 500 words a second, at 30 and at 2, with wide letters, and while a person types."""
    fast = "".join(f"{word} 漢字{'.' if number % 30 else chr(10)} " for number, word in enumerate(WORDS))
    slow = [part for number in range(40) for part in (f"s{number:02} ", 1 / 30)]
    home.script([[fast, *slow, "l1 ", 0.5, "l2 ", 0.5, "End."]])
    terminal = home.terminal("chat", columns=40)
    terminal.see("ready")
    pictures: list[list[str]] = []
    terminal.screen.on_frame = lambda: pictures.append(terminal.screen.screen())
    terminal.type("talk")
    for letter in "typed meanwhile":
        terminal.key(letter)
    terminal.see("s05", "typed meanwhile")
    terminal.see("l2 End.", "typed meanwhile", "ready")
    without = [picture for picture in pictures if not any(row.startswith(">") for row in picture)]
    assert pictures
    assert without == []
    written = "".join(terminal.screen.shown().split())
    assert all(f"{word}漢字" in written for word in WORDS)
    terminal.key("\x15")
    assert terminal.leave() == 0


def resized(home: Home, model: GatedModel, sizes: list[tuple[int, int]], *, wraps: bool) -> str:
    """What stands on a terminal in the end whose window changed twice while an answer came."""
    gates = [Gate() for _ in sizes]
    parts = [" ".join(WORDS[40 * number : 40 * number + 40]) + " " for number in range(3)]
    model.will_answer([parts[0], gates[0], parts[1], gates[1], parts[2] + "End."])
    terminal = asked(home, 24, 60)
    for number, (size, gate) in enumerate(zip(sizes, gates, strict=True)):
        terminal.see(WORDS[40 * number + 39], "> ")
        terminal.resize(*size, wraps=wraps)
        terminal.see(WORDS[40 * number + 39], "> ")
        gate.open()
    terminal.see(WORDS[119], "End.", "ready")
    assert terminal.leave() == 0
    return " ".join(terminal.screen.shown().split())


@pytest.mark.parametrize("sizes", [[(12, 30), (24, 80)], [(40, 100), (9, 24)]])
def test_a_resize_in_mid_paragraph_doubles_and_loses_nothing(
    home: Home, model: GatedModel, sizes: list[tuple[int, int]]
) -> None:
    final = resized(home, model, sizes, wraps=False)
    assert final.count(" ".join([*WORDS[:120], "End."])) == 1


@pytest.mark.parametrize("sizes", [[(24, 30), (24, 80)], [(24, 30), (24, 25)], [(40, 100), (40, 50)]])
def test_a_resize_of_a_terminal_that_wraps_anew_loses_nothing(
    home: Home, model: GatedModel, sizes: list[tuple[int, int]]
) -> None:
    home.settings["TMUX"] = "in use"
    final = resized(home, model, sizes, wraps=True)
    # It wraps what it shows before the program hears of the new size: a row may stand there twice.
    shown = dict.fromkeys(word for word in final.split() if word in {*WORDS, "End."})
    assert list(shown) == [*WORDS[:120], "End."]


def test_leaving_a_conversation_in_mid_paragraph_keeps_what_was_shown_out_of_the_next(
    home: Home, model: GatedModel
) -> None:
    gate = Gate()
    model.will_answer(["The first answer is not over ", gate], "The second is.")
    terminal = asked(home, 24, 80)
    terminal.see("The first answer is not over", "> ")
    terminal.type("/new")
    terminal.see("A new conversation.")
    terminal.type("again")
    terminal.see("> again", "The second is.", "ready")
    gate.open()
    assert terminal.leave() == 0
    assert terminal.screen.shown().count("The first answer is not over") == 1
