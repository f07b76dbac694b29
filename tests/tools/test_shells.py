"""A rule allows only what it says in every shell that may run the command, not in bash alone."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from holdfast.tools.approval import ApprovalPolicy, mark_destructive
from holdfast.tools.command_parts import command_parts
from holdfast.tools.contract import ApprovalRequest
from holdfast.tools.environment import child_environment
from tests.fast_run import examples

pytestmark = pytest.mark.clause("S3")

SHELLS = [
    words
    for words in (
        ["bash"],
        ["dash"],
        ["busybox", "sh"],
        ["bash", "--posix"],
        ["zsh", "--emulate", "sh"],
        ["mksh"],
    )
    if shutil.which(words[0])
]
STUBS = ("git", "touch", "12", "2", "status", "coproc", "if", "[[", "time")
POLICY = ApprovalPolicy.of("ask", ["command:git *"])
TOKENS = [
    *("git", "git ", "git status", "touch P", "touch", "status", "P", "12", "2", "x=1 ", "X"),
    *(
        " ",
        " ",
        "\t",
        "\n",
        ";",
        "&",
        "&&",
        "|",
        "||",
        "|&",
        ";;",
        "!",
        "! ",
        "#",
        " # ",
        "\\",
        "\\\n",
        "\r",
        "\x0b",
    ),
    *(
        ">",
        ">>",
        "<",
        "&>",
        "&>>",
        ">&",
        "&>/dev/null ",
        "&>>/dev/null ",
        "&>&1 ",
        "&> /dev/null",
        "/dev/null",
        "2>&1",
    ),
    *("12>&1 ", ">/dev/null ", " 2>/dev/null ", ">&-", ">|", "<>", "<<<", "<<E\n", "E\n", "<(", ">("),
    *(
        "'",
        '"',
        "$'",
        '$"',
        "`",
        "$(",
        ")",
        "$((",
        "))",
        "${",
        "}",
        "{",
        "$x",
        "${IFS}",
        "$@",
        "$[",
        "]",
        "(",
        "{a,b}",
    ),
    *(
        "[[ ",
        " ]]",
        "if ",
        "then ",
        "fi",
        "function ",
        "time ",
        "coproc ",
        "case ",
        "alias git=touch",
        "eval ",
        "exec ",
    ),
    *(
        "\\x27",
        "\\'",
        '\\"',
        "\u00a0",
        "\u2003",
        "\x85",
        "\u00e0",
        "\u3000",
        "~",
        "*",
        "?",
        "%1",
        "=git",
        ":",
        "-",
    ),
]
FOUND = [
    "git status &>/dev/null touch P",
    "git status &>>/dev/null touch P",
    "git status &> /dev/null touch P",
    "git status &>/dev/null\ttouch P",
    "git status &>/dev/null 2>&1 touch P",
    "git status &>&1 touch P",
    "git $(git status &>/dev/null touch P)",
    'git "$(git status &>/dev/null touch P)"',
    "12>&1 git status",
    "git status;12>/dev/null git status",
]


def decided(line: str) -> str:
    return POLICY.decide(mark_destructive(ApprovalRequest(subject=line, kind="command")))


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of programs that only write down that they ran."""
    folder = tmp_path_factory.mktemp("stubs")
    for name in STUBS:
        (folder / name).write_text(f'#!/bin/sh\necho "{name}" >> "$RAN"\n')
        (folder / name).chmod(0o755)
    return folder


def ran(shell: list[str], line: str, stubs: Path, folder: Path) -> tuple[list[str], list[str]]:
    """The programs that a shell starts for a line, and the files that it makes."""
    folder.mkdir(exist_ok=True)
    log = folder / "ran.log"
    program = shutil.which(shell[0])
    assert program is not None
    environment = {"PATH": str(stubs), "RAN": str(log), "LC_ALL": "C.UTF-8"}
    # The trailing `wait` lets what a line put into the background write down that it ran.
    script = f"{line}\nwait"
    inside = folder / "inside"
    inside.mkdir()
    subprocess.run(
        [program, *shell[1:], "-c", script],
        cwd=inside,
        env=environment,
        timeout=20,
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    )
    return (log.read_text().split() if log.exists() else []), os.listdir(inside)  # noqa: PTH208


@pytest.mark.parametrize("line", FOUND)
def test_a_line_that_shells_read_in_different_ways_is_asked_about(line: str) -> None:
    assert decided(line) == "ask"


@pytest.mark.parametrize(
    "line",
    [
        "git status &>/dev/null",
        "git fetch &>/dev/null; git status",
        "git a &>>/dev/null && git b",
        "git x 2>&1",
    ],
)
def test_what_all_shells_read_alike_is_still_allowed(line: str) -> None:
    assert decided(line) == "allow"


@pytest.mark.skipif(not SHELLS, reason="needs a shell")
@settings(
    max_examples=examples(400),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(st.lists(st.sampled_from(TOKENS), min_size=1, max_size=9).map(lambda parts: "git " + "".join(parts)))
@example("git status &>/dev/null touch P")
@example("git x;12>&1 git y")
def test_no_shell_runs_anything_but_git_for_a_line_that_the_rule_for_git_allows(
    stubs: Path, tmp_path_factory: pytest.TempPathFactory, line: str
) -> None:
    if decided(line) != "allow":
        return
    for shell in SHELLS:
        programs, files = ran(shell, line, stubs, tmp_path_factory.mktemp("ran") / "it")
        assert set(programs) <= {"git"}, f"{shell[0]} ran {programs}"
        assert files == [], f"{shell[0]} made {files}"


@pytest.mark.parametrize("blank", ["\u00a0", "\u2003", "\x85", "\u3000", "\u00e0"])
def test_a_blank_of_some_locale_hides_nothing(blank: str) -> None:
    assert command_parts(f"git status{blank}# ' \n touch P # '") is None
    assert command_parts(f"git commit -m 'a{blank}b'") == [f"git commit -m 'a{blank}b'"]


def test_bytes_that_are_no_text_are_asked_about() -> None:
    assert decided("git status \udca0") == "ask"
    assert decided("git status '\udca0'") == "ask"


@pytest.mark.parametrize(
    "line",
    [
        "git push 2>&1 --force",
        "git push >&2 origin -f",
        "git push \\\n --force",
        "rm x &>/dev/null -r",
        "git reset 2>&1 --hard",
    ],
)
def test_a_redirection_in_the_middle_does_not_hide_what_can_not_be_undone(line: str) -> None:
    assert mark_destructive(ApprovalRequest(subject=line, kind="command")).destructive
    assert (
        ApprovalPolicy.of("ask", ["command:*"]).decide(mark_destructive(ApprovalRequest(line, "command")))
        == "ask"
    )


def test_no_variable_makes_the_shell_run_a_file_before_the_command(tmp_path: Path) -> None:
    hook = tmp_path / "hook"
    hook.write_text("echo hooked\n")
    given_ = {
        "PATH": f":.:bin:{tmp_path}:/usr/bin:/bin:",
        **dict.fromkeys(("BASH_ENV", "ENV", "LD_PRELOAD", "LD_AUDIT"), str(hook)),
        "SHELLOPTS": "xtrace",
        "BASHOPTS": "extglob",
        "LANG": "zh_CN.GBK",
    }
    seen = child_environment(given_)
    assert seen["PATH"] == f"{tmp_path}:/usr/bin:/bin"
    assert not set(seen) & {"BASH_ENV", "ENV", "LD_PRELOAD", "LD_AUDIT", "SHELLOPTS", "BASHOPTS"}
    assert seen["LC_ALL"] == "C.UTF-8"


@pytest.mark.parametrize(
    "locale", [{}, {"LANG": "de_DE.UTF-8"}, {"LC_ALL": "C"}, {"LANG": "x.GBK", "LC_ALL": "en_US.utf8"}]
)
def test_a_locale_in_which_quotes_end_where_they_stand_is_kept(locale: dict[str, str]) -> None:
    seen = child_environment({"PATH": "/bin", **locale})
    assert {name: seen.get(name) for name in ("LANG", "LC_ALL")} == {
        name: locale.get(name) for name in ("LANG", "LC_ALL")
    }
