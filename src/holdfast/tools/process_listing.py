"""`shows_environments`: whether a command is `ps` with the option that shows the environments of processes.

That is an `e` without a dash. Where `ps` does not understand the words with a dash, it reads them as if they
had none: `ps -axe`, and `ps -u name` without a user of that name.
"""

import pwd
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from holdfast.tools.shell_reader import ANY, MAYBE, Command, without_redirections
from holdfast.tools.shell_words import choices

UNKNOWN = re.compile(f"[{ANY}{MAYBE}]")
VALUES = "CDGOUgknopqstu"
READ_AS_FLAGS = "gstu"
"""The value of these is read as flags where it is not understood."""
DASHED = re.compile(rf"-([^{VALUES}]*)([{VALUES}]?)(.*)", re.DOTALL)
PLAIN = re.compile(rf"[A-Za-z{ANY}{MAYBE}]+[0-9]*")
UNDERSTOOD = frozenset("ANadefFjlMPyZcHLmTVw")
BEFORE_PROGRAM = re.compile(r"[A-Za-z_]\w*\+?=.*|-.*|[0-9.]+[smhd]?|[!{(]|\+|BEGIN|END", re.DOTALL)
"""What may stand before the program: an assignment, an option, a number, a bracket."""
WRAPPERS = frozenset(
    {
        "alias",
        "ash",
        "bash",
        "builtin",
        "busybox",
        "chroot",
        "chrt",
        "command",
        "coproc",
        "dash",
        "do",
        "doas",
        "else",
        "elif",
        "env",
        "eval",
        "exec",
        "flock",
        "function",
        "if",
        "ionice",
        "ksh",
        "ltrace",
        "mksh",
        "nice",
        "nohup",
        "nsenter",
        "parallel",
        "runuser",
        "script",
        "setsid",
        "sh",
        "ssh",
        "stdbuf",
        "strace",
        "su",
        "sudo",
        "system",
        "taskset",
        "then",
        "time",
        "timeout",
        "trap",
        "unbuffer",
        "unshare",
        "until",
        "watch",
        "while",
        "xargs",
        "zsh",
    }
)
"""These run the program that follows them."""
WITH_OPERAND = frozenset({"chroot", "exec", "flock", "function", "runuser", "ssh", "su", "taskset"})
"""Another word may stand between these and the program, as in `ssh host ps`."""
RUNS_NEXT = frozenset({"exec", "-exec", "-execdir", "-ok", "-okdir"})
"""What follows one of these is a program, wherever it stands: `find . -exec ps`, `docker exec name ps`."""
LONG_VALUE = re.compile(
    r"--(cols|columns|date-format|format|[Gg]roup|lines|p?pid|quick-pid|rows|sid|sort|tty|[Uu]ser|width)"
)


def shows_environments(commands: list[Command]) -> bool:
    """Whether one of these commands may show environments."""
    return any(_has_flag(_Options(words)) for command in commands for words in _after_ps(command))


class _Options:
    """The options of `ps`, as it reads them."""

    def __init__(self, words: list[str]) -> None:
        self.plain: list[str] = []
        self.dashed: list[str] = []
        self.columns: list[str] = []
        self.understood = True
        left = iter(words)
        for word in left:
            if LONG_VALUE.fullmatch(word):
                next(left, "")
            elif word.startswith("-") and not word.startswith("--"):
                self._add_dashed(word, left)
            elif not word.startswith("-"):
                self.plain.append(word)

    def _add_dashed(self, word: str, left: Iterator[str]) -> None:
        found = DASHED.fullmatch(word)
        letters, option, value = found.groups() if found else (word, "", "")
        if option and not value:
            value = next(left, "")
        self.dashed.append(letters)
        self.understood = self.understood and set(letters) <= UNDERSTOOD
        if option and option in READ_AS_FLAGS:
            self.dashed.append(value)
            self.understood = self.understood and _is_understood(option, value)
        else:
            self.columns.append(value)


def _is_understood(option: str, value: str) -> bool:
    if option == "u":
        try:
            return bool(pwd.getpwnam(value))
        except (KeyError, ValueError):
            pass
    return bool(value) and not PLAIN.fullmatch(value)


def _has_flag(options: _Options) -> bool:
    flags = [*options.plain, *([] if options.understood else options.dashed)]
    if any("environ" in each for each in (*options.columns, *options.plain)):
        return True
    return any("e" in each.lower() or _may_have_more(each) for each in flags if PLAIN.fullmatch(each))


def _may_have_more(word: str) -> bool:
    """Whether unknown text follows or precedes other flags."""
    return word != UNKNOWN.sub("", word) != ""


def _after_ps(command: Command) -> Iterator[list[str]]:
    words = [
        part for word in without_redirections(command) for each in choices(word) for part in _parts(each)
    ]
    for start in (0, *(at for at, word in enumerate(words) if at and word in RUNS_NEXT)):
        if (at := _position(words, start)) is not None:
            yield words[at + 1 :]


def _position(words: list[str], start: int) -> int | None:
    """Where `ps` is the program that a command runs, itself or by a wrapper."""
    operands, wrapped = 0, False
    for at in range(start, len(words)):
        word = words[at]
        if _is_ps(word):
            return at
        if words[at - 1 : at + 1] in (["command", "-v"], ["command", "-V"]):
            return None
        name = word.rpartition("/")[2]
        if name in WRAPPERS or word in RUNS_NEXT or UNKNOWN.search(word):
            operands, wrapped = int(name in WITH_OPERAND), True
        elif not BEFORE_PROGRAM.fullmatch(word) and not (wrapped and words[at - 1].startswith("-")):
            operands -= 1
            if operands < 0:
                return None
    return None


def _parts(word: str) -> list[str]:
    """The word, or what an expansion with blanks makes of `ps$IFSaxe`."""
    parts = [each for each in UNKNOWN.split(word) if each]
    return parts if len(parts) > 1 and any(map(_is_ps, parts)) else [word]


def _is_ps(word: str) -> bool:
    name = word.rpartition("/")[2]
    if "/" in word and re.search(r"[ps]", name) and fnmatchcase("ps", UNKNOWN.sub("*", name)):
        return True
    return UNKNOWN.sub("", name.rpartition("=")[2]) == "ps"
