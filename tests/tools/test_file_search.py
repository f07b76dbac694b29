"""Files are found by name and by content, within limits, and never outside what may be read."""

import os
from pathlib import Path

import pytest

from holdfast.core.errors import ToolFailed
from holdfast.tools.file_search import Request, find_files, search, search_files
from holdfast.tools.search_worker import glob_pattern
from tests.tools.call_fixtures import Calls, finish

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def tree(calls: Calls) -> Path:
    for name, text in {
        "a.py": "import os\nprint('ü')\n",
        "src/b.py": "import re\r\n# TODO later\r\n",
        "src/deep/c.ts": "todo: import\n",
        "build/out.py": "import built\n",
        "src/gen/x.py": "import generated\n",
        "src/gen/keep.py": "import kept\n",
        ".git/config": "import git\n",
        ".hidden.py": "import hidden\n",
        ".gitignore": "build/\n*.log\n",
        "src/gen/.gitignore": "*\n!keep.py\n",
        "big.log": "import log\n",
    }.items():
        path = calls.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, newline="")
    (calls.workspace / "bin").write_bytes(b"import\x00")
    return calls.workspace


def test_files_are_found_by_name_but_for_the_ignored(calls: Calls, tree: Path) -> None:
    assert calls.run(find_files, glob="*.py").text.splitlines() == [
        ".hidden.py",
        "a.py",
        "src/b.py",
        "src/gen/keep.py",
    ]
    assert calls.run(find_files, glob="src/**/*.{py,ts}").text.splitlines() == [
        "src/b.py",
        "src/deep/c.ts",
        "src/gen/keep.py",
    ]
    assert calls.run(find_files, glob="*.py", folder="src/gen").text == "src/gen/keep.py"
    assert calls.run(find_files, glob="*.log").text == "no file found"
    assert calls.run(find_files, glob="*", limit=2).text.endswith("[there is more; these are the first 2]")


def test_content_is_found_line_by_line(calls: Calls, tree: Path) -> None:
    assert calls.run(search_files, pattern=r"^import \w+$").text.splitlines() == [
        ".hidden.py:1: import hidden",
        "a.py:1: import os",
        "src/gen/keep.py:1: import kept",
    ]
    assert calls.run(search_files, pattern="todo", ignore_case=True, folder="src").text.splitlines() == [
        "src/b.py:2: # TODO later",
        "src/deep/c.ts:1: todo: import",
    ]
    assert calls.run(search_files, pattern="import", glob="*.ts").text == "src/deep/c.ts:1: todo: import"
    assert calls.run(search_files, pattern="ü", folder="a.py").text == "a.py:2: print('ü')"
    assert calls.run(search_files, pattern="nowhere").text == "nothing found"
    assert calls.run(search_files, pattern="import", limit=1).text.endswith("these are the first 1]")


@pytest.mark.parametrize("pattern", ["(", "[", "(?P<", "a{99999999999}", "*"])
def test_a_broken_pattern_is_told(calls: Calls, tree: Path, pattern: str) -> None:
    with pytest.raises(ToolFailed, match="the pattern can't be used"):
        calls.run(search_files, pattern=pattern)


@pytest.mark.slow
def test_a_pattern_that_would_take_for_ever_is_ended_and_what_was_found_counts(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("found aab\n" + "a" * 60 + "\n")
    request = Request(str(tmp_path), [], "", 10, r"(a+)+b")
    findings = finish(search(request, seconds=2.0))
    assert [each["line"] for each in findings.found] == [1]
    assert "took more than 2 s and was ended" in findings.note


def test_links_are_not_followed_and_odd_files_do_no_harm(calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "s.py").write_text("secret")
    (calls.workspace / "link").symlink_to(tmp_path / "outside")
    (calls.workspace / "circle").symlink_to(".")
    (calls.workspace / "s.py").symlink_to(tmp_path / "outside" / "s.py")
    os.mkfifo(calls.workspace / "pipe")
    Path(os.fsdecode(os.fsencode(calls.workspace) + b"/\xff\n.txt")).write_text("odd")
    (calls.workspace / ".gitignore").write_bytes(b"\xff\x00[\n***\n!\n")
    assert calls.run(search_files, pattern="secret").text == "nothing found"
    assert "odd" in calls.run(search_files, pattern="odd").text
    assert "\n" not in calls.run(find_files, glob="*.txt").text
    calls.person.yes = False
    for folder in ("link", "..", "/etc"):
        with pytest.raises(ToolFailed, match="outside the workspace"):
            calls.run(search_files, pattern="x", folder=folder)
    calls.person.yes = True
    assert calls.run(search_files, pattern="secret", folder="link").text.endswith("/outside/s.py:1: secret")


def test_a_long_line_is_shown_around_the_match(calls: Calls) -> None:
    (calls.workspace / "wide").write_text("x" * 100_000 + "needle" + "y" * 100_000)
    text = calls.run(search_files, pattern="needle").text
    assert "needle" in text
    assert len(text) < 500


@pytest.mark.parametrize(
    ("glob", "fits", "fails"),
    [
        ("*.py", ["a.py", "x/y/a.py"], ["a.pyc", "py"]),
        ("/a.py", ["a.py"], ["x/a.py"]),
        ("src/*.py", ["src/a.py"], ["src/x/a.py", "a/src/a.py"]),
        ("src/**", ["src/a", "src/x/y"], ["src", "a"]),
        ("**/a", ["a", "x/y/a"], ["ab"]),
        ("a?[0-9]", ["ab1"], ["ab", "a/1", "abc"]),
        ("[!a]b", ["cb"], ["ab"]),
        ("{a,b}.{c,d}", ["a.d"], ["a.e"]),
        ("a{b", ["a{b"], ["ab"]),
        ("a.b", ["a.b"], ["axb"]),
    ],
)
def test_globs_mean_what_people_expect(glob: str, fits: list[str], fails: list[str]) -> None:
    pattern = glob_pattern(glob)
    assert [each for each in fits if not pattern.match(each)] == []
    assert [each for each in fails if pattern.match(each)] == []
