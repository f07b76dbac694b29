"""Files are read, written and edited inside the workspace; whatever leads out of it is asked about."""

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.errors import ToolFailed
from holdfast.tools.contract import Tool
from holdfast.tools.files import Files
from holdfast.tools.resolved_path import resolve_path
from holdfast.tools.text_files import TextFile
from tests.fast_run import examples
from tests.tools.call_fixtures import Calls, finish


@pytest.fixture
def tools() -> dict[str, Tool]:
    return {each.name: each for each in Files(20_000).tools()}


def put(calls: Calls, name: str, data: bytes) -> Path:
    path = calls.workspace / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_a_file_is_read_with_its_line_numbers(calls: Calls, tools: dict[str, Tool]) -> None:
    put(calls, "a/b.txt", "eins\nzwei ü\n\nvier".encode())
    assert calls.run(tools["read_file"], path="a/b.txt").text == "1\teins\n2\tzwei ü\n3\t\n4\tvier"
    assert calls.run(tools["read_file"], path=f"{calls.workspace}/a/../a/b.txt", start=2, lines=2).text == (
        "2\tzwei ü\n3\t\n[lines 2 to 3 of 4; read on with start=4]"
    )
    assert calls.person.asked == []


def test_a_long_file_is_read_in_pieces_that_give_every_line(calls: Calls, tools: dict[str, Tool]) -> None:
    put(calls, "long", b"".join(b"line %d\n" % number for number in range(1, 10_001)))
    seen, start = [], 1
    while True:
        text = calls.run(tools["read_file"], path="long", start=start, lines=10_000).text
        assert len(text) < 20_000
        seen += [line.split("\t")[1] for line in text.splitlines() if "\t" in line]
        if "read on with start=" not in text:
            break
        start = int(text.split("start=")[1].rstrip("]"))
    assert seen == [f"line {number}" for number in range(1, 10_001)]


def test_a_very_long_line_is_cut_and_says_so(calls: Calls, tools: dict[str, Tool]) -> None:
    put(calls, "wide", b"x" * 1_000_000)
    assert "998000 more characters in this line" in calls.run(tools["read_file"], path="wide").text


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"", "[f is empty]"),
        (b"\n", "1\t"),
        (b"a\r\nb\r\n", "1\ta\n2\tb\n[its lines end with CRLF]"),
        (b"\xef\xbb\xbfmarked", "1\tmarked"),
        ("ü€".encode("utf-16"), "1\tü€\n[read as utf-16-le]"),
        ("ü".encode("utf-32"), "1\tü\n[read as utf-32-le]"),
        ("grün".encode("latin-1"), "1\tgrün\n[read as latin-1]"),
        ("a\u2028b\x0bc\n".encode(), "1\ta\u2028b\x0bc"),
    ],
)
def test_text_is_read_in_its_encoding(calls: Calls, tools: dict[str, Tool], data: bytes, shown: str) -> None:
    put(calls, "f", data)
    assert calls.run(tools["read_file"], path="f").text == shown


@pytest.mark.parametrize(
    "data", [b"a\x00b", b"\x7fELF\x02\x01\x01\x00", bytes(range(1, 32)) * 9, b"\xff\xfe\x00\xd8"]
)
def test_binary_data_is_not_read_as_text(calls: Calls, tools: dict[str, Tool], data: bytes) -> None:
    path = put(calls, "f", data)
    for name, more in (("read_file", {}), ("edit_file", {"old": "a", "new": "b"})):
        with pytest.raises(ToolFailed, match="f is not text"):
            calls.run(tools[name], path="f", **more)
    assert path.read_bytes() == data


def test_a_huge_file_is_refused_with_another_way(calls: Calls, tools: dict[str, Tool]) -> None:
    with (calls.workspace / "huge").open("wb") as file:
        file.truncate(10_000_000_000)
    with pytest.raises(ToolFailed, match=r"huge has 10000000000 bytes.*sed or grep"):
        calls.run(tools["read_file"], path="huge")


def test_what_is_no_regular_file_is_refused_at_once(calls: Calls, tools: dict[str, Tool]) -> None:
    os.mkfifo(calls.workspace / "pipe")
    (calls.workspace / "folder").mkdir()
    for name, said in (
        ("pipe", "not a regular file"),
        ("folder", "regular file|folder"),
        ("none", "there is no none"),
    ):
        with pytest.raises(ToolFailed, match=said):
            calls.run(tools["read_file"], path=name)
    for name in ("pipe", "folder"):
        with pytest.raises(ToolFailed, match=r"folder|not a regular file"):
            calls.run(tools["write_file"], path=name, text="x")
    put(calls, "one", b"x")
    with pytest.raises(ToolFailed, match="only 1 lines"):
        calls.run(tools["read_file"], path="one", start=9)


@pytest.mark.parametrize("name", ["a\x00b", "\ud800", "x" * 300, "x/" * 3000, "~/x", "~root/x"])
def test_a_path_that_is_none_is_refused(calls: Calls, tools: dict[str, Tool], name: str) -> None:
    for tool, more in (("read_file", {}), ("write_file", {"text": "x"}), ("list_folder", {})):
        with pytest.raises(ToolFailed):
            calls.run(tools[tool], path=name, **more)


@pytest.mark.parametrize(
    "name",
    ["../secret", "/etc/passwd", "link", "linked/secret", "a/../../secret", "deep/../linked/secret", "chain"],
)
def test_what_leads_out_of_the_workspace_needs_a_yes(
    calls: Calls, tools: dict[str, Tool], tmp_path: Path, name: str
) -> None:
    (tmp_path / "secret").write_text("the secret")
    (calls.workspace / "link").symlink_to(tmp_path / "secret")
    (calls.workspace / "chain").symlink_to("link")
    (calls.workspace / "linked").symlink_to("..")
    (calls.workspace / "deep").mkdir()
    calls.person.yes = False
    for tool, more in (
        ("read_file", {}),
        ("write_file", {"text": "x"}),
        ("edit_file", {"old": "the", "new": "a"}),
    ):
        with pytest.raises(ToolFailed, match="outside the workspace, and the person did not allow"):
            calls.run(tools[tool], path=name, **more)
    assert [each.kind for each in calls.person.asked] == ["read", "write", "write"]
    assert {each.subject for each in calls.person.asked} <= {str(tmp_path / "secret"), "/etc/passwd"}
    assert (tmp_path / "secret").read_text() == "the secret"
    if name != "/etc/passwd":
        calls.person.yes = True
        assert "the secret" in calls.run(tools["read_file"], path=name).text
        calls.run(tools["write_file"], path=name, text="changed")
        assert (tmp_path / "secret").read_text() == "changed"
        assert (calls.workspace / "link").is_symlink()


def test_a_link_inside_the_workspace_is_followed_without_asking(calls: Calls, tools: dict[str, Tool]) -> None:
    put(calls, "real", b"old")
    (calls.workspace / "link").symlink_to("real")
    calls.run(tools["write_file"], path="link", text="new")
    assert (calls.workspace / "link").is_symlink()
    assert (calls.workspace / "real").read_text() == "new"
    assert calls.person.asked == []


def test_a_workspace_that_is_itself_a_link_is_still_the_workspace(
    calls: Calls, tools: dict[str, Tool], tmp_path: Path
) -> None:
    put(calls, "f", b"x")
    (tmp_path / "alias").symlink_to(calls.workspace)
    calls.workspace = tmp_path / "alias"
    assert calls.run(tools["read_file"], path="f").text == "1\tx"
    assert calls.person.asked == []


def test_a_folder_that_becomes_a_link_after_the_check_is_not_followed(calls: Calls, tmp_path: Path) -> None:
    from holdfast.tools.resolved_path import read_bytes
    from holdfast.tools.text_files import replace_file

    put(calls, "folder/f", b"inside")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "f").write_text("outside")
    place = resolve_path(calls.workspace, "folder/f")
    (calls.workspace / "folder").rename(calls.workspace / "moved")
    (calls.workspace / "folder").symlink_to(tmp_path / "elsewhere")
    for act in (lambda: read_bytes(place, 100), lambda: replace_file(place, b"x")):
        with pytest.raises(ToolFailed, match="became a link"):
            act()
    assert (tmp_path / "elsewhere" / "f").read_text() == "outside"


def test_links_that_go_in_a_circle_are_refused(calls: Calls, tools: dict[str, Tool]) -> None:
    (calls.workspace / "a").symlink_to("b")
    (calls.workspace / "b").symlink_to("a")
    for tool, more in (("read_file", {}), ("write_file", {"text": "x"})):
        with pytest.raises(ToolFailed):
            calls.run(tools[tool], path="a", **more)


def test_gits_own_folder_is_asked_about_before_it_is_written(calls: Calls, tools: dict[str, Tool]) -> None:
    put(calls, ".git/config", b"x")
    calls.person.yes = False
    for name in (".git/hooks/pre-commit", "sub/.git/config", ".GIT/config"):
        with pytest.raises(ToolFailed, match="git runs programs"):
            calls.run(tools["write_file"], path=name, text="x")
    assert "x" in calls.run(tools["read_file"], path=".git/config").text
    calls.run(tools["write_file"], path=".gitignore", text="x")


def test_writing_makes_folders_and_keeps_the_mode(calls: Calls, tools: dict[str, Tool]) -> None:
    assert calls.run(tools["write_file"], path="a/b/c.sh", text="ü").text == "created a/b/c.sh (2 bytes)"
    path = calls.workspace / "a/b/c.sh"
    path.chmod(0o751)
    assert calls.run(tools["write_file"], path="a/b/c.sh", text="x").text == "replaced a/b/c.sh (1 bytes)"
    assert path.stat().st_mode & 0o7777 == 0o751
    assert [each.name for each in path.parent.iterdir()] == ["c.sh"]
    path.chmod(0o444)
    with pytest.raises(ToolFailed, match="read-only"):
        calls.run(tools["write_file"], path="a/b/c.sh", text="y")
    assert path.read_text() == "x"


def test_a_text_that_cannot_be_written_changes_nothing(calls: Calls, tools: dict[str, Tool]) -> None:
    path = put(calls, "f", b"before")
    with pytest.raises(ToolFailed, match="can't hold"):
        calls.run(tools["write_file"], path="f", text="\ud800")
    assert path.read_bytes() == b"before"
    assert len(list(calls.workspace.iterdir())) == 1


def test_an_edit_replaces_the_one_place(calls: Calls, tools: dict[str, Tool]) -> None:
    path = put(calls, "f.py", b"one\ntwo\nthree\n")
    path.chmod(0o700)
    assert (
        calls.run(tools["edit_file"], path="f.py", old="two\n", new="2\n\n").text
        == "replaced 1 place in f.py (line 2)"
    )
    assert path.read_bytes() == b"one\n2\n\nthree\n"
    assert path.stat().st_mode & 0o777 == 0o700


def test_an_edit_that_is_not_plain_says_what_to_do(calls: Calls, tools: dict[str, Tool]) -> None:
    path = put(calls, "f", b"a\n  b\na\n")
    for old, said in (
        ("a", r"was found 2 times in f \(lines 1, 3\)"),
        ("b\nc", "first line is like line 2"),
        ("zz", "was not found in f. Read the file again"),
        ("", "empty"),
        ("q", "same|does not stand"),
    ):
        with pytest.raises(ToolFailed, match=said):
            calls.run(tools["edit_file"], path="f", old=old, new="q")
    assert path.read_bytes() == b"a\n  b\na\n"
    calls.run(tools["edit_file"], path="f", old="a", new="aa", replace_all=True)
    assert path.read_bytes() == b"aa\n  b\naa\n"


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\n", "a\nb", "x\ny", b"x\r\ny\r\n"),
        (b"a\r\nb\r\n", "a\r\nb", "x\r\ny", b"x\r\ny\r\n"),
        (b"a\nb\r\n", "a\nb", "x\ny", b"x\ny\r\n"),
        (b"\xef\xbb\xbfa\n", "a", "b", b"\xef\xbb\xbfb\n"),
        ("grün".encode("latin-1"), "grün", "blöd", "blöd".encode("latin-1")),
        ("\ufeffü\r\n".encode("utf-16-le"), "ü", "€", "\ufeff€\r\n".encode("utf-16-le")),
        (b"no end", "end", "\n", b"no \n"),
    ],
)
def test_an_edit_keeps_encoding_and_line_ends(
    calls: Calls, tools: dict[str, Tool], before: bytes, old: str, new: str, after: bytes
) -> None:
    path = put(calls, "f", before)
    calls.run(tools["edit_file"], path="f", old=old, new=new)
    assert path.read_bytes() == after


def test_an_edit_that_the_encoding_cannot_hold_changes_nothing(calls: Calls, tools: dict[str, Tool]) -> None:
    path = put(calls, "f", b"gr\xfcn")
    with pytest.raises(ToolFailed, match="latin-1, which can't hold '€'"):
        calls.run(tools["edit_file"], path="f", old="gr", new="€")
    assert path.read_bytes() == b"gr\xfcn"


def test_edits_of_one_batch_do_not_undo_each_other(calls: Calls, tools: dict[str, Tool]) -> None:
    path = put(calls, "f", b"".join(b"<%d>\n" % number for number in range(12)))

    async def main() -> None:
        await asyncio.gather(
            *(
                calls.call(tools["edit_file"], path="f", old=f"<{number}>", new=f"[{number}]")
                for number in range(12)
            )
        )

    finish(main())
    assert path.read_bytes() == b"".join(b"[%d]\n" % number for number in range(12))


def test_a_change_by_somebody_else_in_between_is_not_overwritten(calls: Calls) -> None:
    from holdfast.tools.resolved_path import read_bytes
    from holdfast.tools.text_files import replace_file

    path = put(calls, "f", b"one")
    place = resolve_path(calls.workspace, "f")
    _, found = read_bytes(place, 100)
    path.write_bytes(b"other")
    with pytest.raises(ToolFailed, match="changed by somebody else"):
        replace_file(place, b"mine", unchanged_since=found)
    assert path.read_bytes() == b"other"
    path.unlink()
    with pytest.raises(ToolFailed, match="changed by somebody else"):
        replace_file(place, b"mine", unchanged_since=found)


@settings(max_examples=examples(100))
@given(
    st.text(st.characters(exclude_categories=("Cs", "Cc"))),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]),
)
def test_what_is_read_is_written_back_the_same(text: str, encoding: str) -> None:
    data = text.encode(encoding)
    file = TextFile.decode(data, "f")
    assert file.encode(file.text, "f") == data


def test_a_folder_is_listed(calls: Calls, tools: dict[str, Tool]) -> None:
    put(calls, "b/x", b"")
    put(calls, "a.txt", b"123")
    put(calls, "new\nline", b"")
    os.mkfifo(calls.workspace / "pipe")
    (calls.workspace / "link").symlink_to("/etc")
    assert calls.run(tools["list_folder"]).text.splitlines() == [
        "a.txt (3 bytes)",
        "b/",
        "link -> /etc",
        "new\\nline (0 bytes)",
        "pipe (not a regular file)",
    ]
    with pytest.raises(ToolFailed, match="not a folder"):
        calls.run(tools["list_folder"], path="a.txt")
    with pytest.raises(ToolFailed, match="there is no"):
        calls.run(tools["list_folder"], path="none")
    calls.person.yes = False
    with pytest.raises(ToolFailed, match="outside"):
        calls.run(tools["list_folder"], path="link")
