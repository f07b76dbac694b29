"""A command line is read as bash reads it (S1)."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tools.shell_reader import ANY, TooDeep, read_commands

pytestmark = pytest.mark.clause("S1")

BASH = Path("/bin/bash")


def words(text: str) -> list[list[str]]:
    line = read_commands(text, lambda name: {"KNOWN": "value"}.get(name, ANY))
    return [each for each in line.commands if each]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a  b\tc", [["a", "b", "c"]]),
        ("a;b&&c|d&e\nf", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]),
        ("a\\\nb", [["ab"]]),
        ("a\\\\\nb", [["a\\"], ["b"]]),
        ("'a b'\"c d\"e\\ f", [["a bc de f"]]),
        ('"a\\"b\\c"', [['a"b\\c']]),
        ("$KNOWN\"$KNOWN\"'$KNOWN'", [["valuevalue$KNOWN"]]),
        ("a$OTHER", [[f"a{ANY}"]]),
        ("a${KNOWN}b$?", [["avalueb*"]]),
        ('$"a" b$', [["a", "b$"]]),
        ("$'a\\'b'c", [[f"{ANY}c"]]),
        ("$[a[1]]c", [["a[1]"], ["[1]"], [f"{ANY}c"]]),
        ("a $(b ')' $(c))d", [["c"], ["b", ")", ANY], ["a", f"{ANY}d"]]),
        ("a `b \\`c\\``", [["c"], ["b", ANY], ["a", ANY]]),
        ("a 2>&1 >b &>c d", [["a", "2", ">", "1", ">", "b", ">", "c", "d"]]),
        ("(a; b) | c", [["a"], ["b"], ["c"]]),
        ("a <(b) c", [["b"], ["a", ANY, "c"]]),
    ],
)
def test_words_are_found_with_what_ends_a_command(text: str, expected: list[list[str]]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize("text", ["'a", '"a', "`a", "$(a", "${a", "$[1", "(a", "a)", "$'a", '"$(a"'])
def test_a_line_with_an_open_end_is_not_complete(text: str) -> None:
    assert not read_commands(text, str).complete


@given(st.text(alphabet="ab'\"\\$`(){}[]<>&|;~#*@!\n =", max_size=40))
def test_any_text_can_be_read(text: str) -> None:
    try:
        read_commands(text, lambda _: ANY)
    except TooDeep:
        assert text.count("(") + text.count("[") + text.count("{") + text.count("`") >= 20


@pytest.mark.skipif(not os.access(BASH, os.X_OK), reason="bash is not installed")
@given(st.text(alphabet="ab'\"\\ ", max_size=20))
def test_quotes_and_blanks_are_read_as_bash_does(text: str) -> None:
    done = subprocess.run(
        [BASH, "--norc", "-c", f"printf '%s\\n' x {text}"],
        capture_output=True,
        text=True,
        env={},
        check=False,
    )
    line = read_commands(text, str)
    assert line.complete == (not done.stderr)
    if line.complete:
        assert "\n".join(("x", *(word for each in line.commands for word in each), "")) == done.stdout
