"""Long results are cut to a budget, and the whole stays readable."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.errors import ToolFailed
from holdfast.tools.output import ResultBudget, output_tool, readable
from tests.fast_run import examples
from tests.tools.call_fixtures import Calls


def read_all(budget: ResultBudget, output_id: str) -> str:
    text, at = "", 0
    while True:
        piece = budget.read(output_id, at)
        text, at = text + piece.text, piece.end
        if at >= piece.size:
            return text


def test_a_short_result_stays_and_leaves_no_file(tmp_path: Path) -> None:
    budget = ResultBudget(tmp_path / "kept", 100)
    assert budget.cut("s", "x" * 100) == "x" * 100
    assert not (tmp_path / "kept").exists()


def test_a_long_result_shows_its_ends_and_says_where_the_whole_is(tmp_path: Path, calls: Calls) -> None:
    budget = ResultBudget(tmp_path / "kept", 200)
    whole = "\n".join(f"line {number}" for number in range(1000))
    shown = budget.cut("s", whole)
    assert shown.startswith("line 0\n")
    assert shown.endswith("line 999")
    assert len(shown) < 400
    (kept,) = (tmp_path / "kept").glob("*/*.txt")
    assert f'read_output(id="{kept.stem}", offset=' in shown
    assert read_all(budget, kept.stem) == whole
    offset = int(shown.split("offset=")[1].split(")")[0])
    first = calls.run(output_tool(budget), id=kept.stem, offset=offset).text
    assert whole[offset:].startswith(first.split("\n[bytes")[0])
    assert f"read on from offset {offset + 200}" in first
    assert "this is the end" in calls.run(output_tool(budget), id=kept.stem, offset=10**9).text


def test_the_kept_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    ResultBudget(tmp_path / "kept", 10).cut("s", "x" * 100)
    (kept,) = (tmp_path / "kept").glob("*/*.txt")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.parent.stat().st_mode & 0o777 == 0o700


@settings(max_examples=examples(60), deadline=None)
@given(
    text=st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=300),
    most=st.integers(4, 60),
)
def test_reading_on_gives_every_character_once(
    tmp_path_factory: pytest.TempPathFactory, text: str, most: int
) -> None:
    budget = ResultBudget(tmp_path_factory.mktemp("kept"), most)
    with budget.spool("s", at_once=True) as spool:
        spool.write(text.encode())
    assert read_all(budget, spool.id) == text


@pytest.mark.parametrize("session_id", ["../../x", "/etc", "a/b", "", "\x00", "ü" * 1000, "\ud800"])
def test_a_session_may_have_any_id(tmp_path: Path, session_id: str) -> None:
    budget = ResultBudget(tmp_path / "kept", 10)
    budget.cut(session_id, "x" * 100)
    (kept,) = tmp_path.rglob("*.txt")
    assert kept.parent.parent == tmp_path / "kept"
    budget.forget(session_id)
    assert list(tmp_path.rglob("*.txt")) == []


@pytest.mark.parametrize("output_id", ["", "../x", "*", "\x00", "0" * 26, "/etc/passwd"])
def test_an_id_that_names_nothing_kept_is_refused(tmp_path: Path, output_id: str) -> None:
    with pytest.raises(ToolFailed, match="no output is kept"):
        ResultBudget(tmp_path).read(output_id)


def test_no_more_is_kept_than_the_limit_and_that_is_said(tmp_path: Path) -> None:
    budget = ResultBudget(tmp_path, 100, kept_bytes=1000)
    shown = budget.cut("s", "x" * 5000)
    (kept,) = tmp_path.glob("*/*.txt")
    assert kept.stat().st_size == 1000
    assert "Only the first 1000 bytes of 5000 were kept." in shown


def test_a_folder_that_cannot_be_written_costs_the_whole_and_not_the_result(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("a file")
    shown = ResultBudget(tmp_path / "kept", 100).cut("s", "a" * 5000 + "b")
    assert "They could not be kept: " in shown
    assert shown.startswith("a")
    assert shown.endswith("b")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x1b[31mred\x1b[0m", "red"),
        (b"\x1b]0;title\x07x", "x"),
        (b"10%\r50%\r100%\ndone\r\n", "100%\ndone\n"),
        (b"a\x00b", "a\ufffdb"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        ("ünï".encode(), "ünï"),
    ],
)
def test_output_is_made_readable(data: bytes, text: str) -> None:
    assert readable(data) == text


@given(st.binary(max_size=200))
def test_any_bytes_are_readable(data: bytes) -> None:
    assert "\x00" not in readable(data)


def test_a_text_that_no_database_stores_is_mended(tmp_path: Path) -> None:
    budget = ResultBudget(tmp_path, 10)
    assert budget.cut("s", "a\x00\ud800") == "a\ufffd\ufffd"
    assert os.fspath(tmp_path)
    assert "\x00" not in budget.cut("s", "\x00\ud800" * 50)
