"""`ShellWords`: the paths that a command line may name, as bash would see them before it starts a program.

`shell_reader.py` reads the line. What quotes protect is read once more, for a shell or a program may do that.
A pattern of file names stays one. Read `command_paths.py` first.
"""

import os
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import partial
from itertools import product
from pathlib import Path

from holdfast.tools.shell_reader import (
    ANY,
    FOLDER,
    MAYBE,
    REDIRECTION,
    TILDE,
    Command,
    TooDeep,
    read_commands,
    without_redirections,
)

MAX_CHOICES = 64
MAX_FOLDERS = 16
MAX_PATHS = 20_000
MAX_COMPARED = 100
"""A longer pattern counts by what stands before its first sign."""
MAX_DOTTED = 3
"""A path with more patterns that could be `..` may lead anywhere."""
MARKS = re.compile(f"[{ANY}{MAYBE}{TILDE}{FOLDER}]")
QUOTES = re.compile(r"\\\n|\$?\"|['\\]")
PROTECTED = re.compile(rf"[\s;&|()<>`'\"\\${TILDE}]")
INNER = re.compile(rf"[=:@,{ANY}]")
BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
RANGES = re.compile(r"\{[^{},]*\.\.[^{},]*\}")
READS_AGAIN = re.compile(r"#|<<|\b(?:alias|eval|source|trap|\w*sh)\b")
"""With one of these, single quotes may not protect what is in them, or a quote may be none."""
SHELLS = frozenset(
    {
        "sh",
        "bash",
        "dash",
        "ash",
        "zsh",
        "ksh",
        "mksh",
        "fish",
        "csh",
        "tcsh",
        "busybox",
        "eval",
        "source",
        "ssh",
        "su",
        "runuser",
        "at",
        "batch",
    }
)
"""With one of these in the line, any text in quotes may be commands."""
READERS = frozenset(
    {
        "alias",
        "awk",
        "env",
        "expect",
        "find",
        "flock",
        "gawk",
        "hyperfine",
        "mawk",
        "node",
        "parallel",
        "perl",
        "php",
        "python",
        "python3",
        "ruby",
        "screen",
        "script",
        "tmux",
        "trap",
        "watch",
    }
)
"""These may run commands from the text that they are given in quotes."""
UNKNOWN = re.compile(f"[{ANY}{MAYBE}]")
ODD_TILDE = re.compile(r"~[-+]?[0-9]|~-")
# A name that is written without `$` before it: the command may set that variable.
WRITTEN_NAME = re.compile(r"(?<![\w$])(?<!\$\{)[A-Za-z_]\w*")
NUMBERS = frozenset({"PPID", "UID", "EUID", "RANDOM", "SRANDOM", "LINENO", "SECONDS", "BASHPID", "SHLVL"})
SET_BY_SHELL = re.compile(r"BASH\w*|OLDPWD|_|DIRSTACK|FUNCNAME|GROUPS|HOST\w+|MACHTYPE|OPT\w+|OSTYPE|REPLY")
CHANGES_FOLDER = frozenset({"cd", "pushd", "-C", "--chdir", "--directory"})


class ShellWords:
    """A command line that the shell gets in `folder` with `environment`."""

    def __init__(self, command: str, folder: Path, environment: Mapping[str, str]) -> None:
        self._environment = environment
        command = MARKS.sub(ANY, command)
        bare = QUOTES.sub("", command)
        self._written = {*WRITTEN_NAME.findall(command), *WRITTEN_NAME.findall(bare)}
        self.readable = True
        """Whether the line could be read at all: it may be nested too deeply."""
        self.commands: list[Command] = []
        """The commands with their words, those in quotes and substitutions too."""
        self.run_commands: list[Command] = []
        """The commands that may be run: of what is in quotes only what something reads as commands."""
        self._soft: list[Command] = []
        try:
            self._read(command, bare)
        except TooDeep:
            self.readable = False
        self._folders = self._all_folders(os.fspath(folder))

    def _read(self, command: str, bare: str) -> None:
        line = read_commands(command, self._value)
        self.commands = line.commands
        reads_again = not line.complete or bool(READS_AGAIN.search(bare))
        read = partial(read_commands, value=self._value)
        if not reads_again:
            read = partial(read_commands, value=lambda _: MAYBE, unknown=MAYBE)
        texts = dict.fromkeys([bare] if reads_again else [], True)
        for word, is_run in _quoted(line.commands):
            text = word.replace(TILDE, "~")
            for each in (text, QUOTES.sub("", text)):
                texts[each] = texts.get(each, False) or is_run
        read_again = {text: read(text).commands for text in texts}
        found = [each for commands in read_again.values() for each in commands]
        run = [each for text, commands in read_again.items() if texts[text] for each in commands]
        self.run_commands = [*line.commands, *run]
        if reads_again:
            self.commands = [*line.commands, *found]
        else:
            self._soft = found

    @property
    def all_commands(self) -> list[Command]:
        """All commands; what quotes protect is read once more in any case."""
        return [*self.commands, *self._soft]

    def has_unknown(self) -> bool:
        """Whether a word holds something that only the shell will know, which could be any path."""
        unknown = any(ANY in each for words in self.commands for word in words for each in self._pieces(word))
        return not self.readable or unknown or ANY in self._folders

    def paths(self) -> Iterator[str]:
        """Each word and part of a word as a whole path, which may hold `..`, patterns, `ANY` and `MAYBE`."""
        words = dict.fromkeys(word for each in self.commands for word in each)
        pieces = {piece: True for word in words for piece in self._pieces(word)}
        for word in dict.fromkeys(word for each in self._soft for word in each):
            for piece in self._pieces(word, soft=True):
                pieces.setdefault(piece, False)
        too_many = len(self._folders) > 2 and len(pieces) * len(self._folders) > MAX_PATHS  # noqa: PLR2004
        for folder in [self._folders[0], ANY] if too_many else self._folders:
            for piece, certain in pieces.items():
                path = _joined(folder, piece)
                yield path
                # The last word of a text in quotes is more often a regular expression.
                yield from _climbing(path, at_end=certain)

    def _all_folders(self, start: str) -> list[str]:
        """The folders that the command may be in when a program starts."""
        folders = {start: None}
        for words in map(without_redirections, self.all_commands):
            for at, word in enumerate(words):
                for target in _targets(word, words[at + 1 : at + 5]):
                    if target == "-" or (word == "cd" and self._searches_folders()):
                        folders |= {ANY: None}
                    pieces = list(self._pieces(target))
                    folders |= {_joined(folder, each): None for folder in tuple(folders) for each in pieces}
                if len(folders) > MAX_FOLDERS:
                    return [start, ANY]
        return list(folders)

    def _searches_folders(self) -> bool:
        return bool(self._environment.get("CDPATH")) or "CDPATH" in self._written

    def _pieces(self, word: str, *, soft: bool = False) -> Iterator[str]:
        for choice in choices(word):
            for piece in dict.fromkeys((choice, *INNER.split(choice), *_after_flag(choice))):
                if piece not in {"", REDIRECTION} and "\0" not in piece:
                    yield self._without_tilde(piece, soft=soft).replace(TILDE, "~")

    def _value(self, name: str) -> str:
        if name in NUMBERS and name not in self._written:
            return "*"  # no slash is in it
        if not name.isidentifier() or name in self._written or SET_BY_SHELL.fullmatch(name):
            return ANY
        # The shell sets PWD itself, whatever it was given.
        return FOLDER if name == "PWD" else self._environment.get(name, ANY)

    def _without_tilde(self, piece: str, *, soft: bool) -> str:
        if not piece.startswith("~"):
            return piece
        name, slash, rest = piece.partition("/")
        if soft:
            home = MAYBE
        elif name == "~":
            home = self._value("HOME")
        elif name == "~+":
            home = self._value("PWD")
        else:
            home = ANY if ODD_TILDE.match(name) else os.path.expanduser(name)  # noqa: PTH111
        return f"{home}{slash}{rest}"


def _targets(word: str, after: list[str]) -> list[str]:
    """Where a word of a command leads to, with those after it."""
    if word in CHANGES_FOLDER:
        named = [each for each in after if each not in {"", "-L", "-P", "-e", "-@", "--"}]
        return named[:1] or ["~"]
    for option in ("-C", "--chdir=", "--directory="):
        if word.startswith(option):
            return [word.removeprefix(option)]
    return []


def _quoted(commands: list[Command]) -> Iterator[tuple[str, bool]]:
    """The words with text that quotes protect, and whether it may be run as commands."""
    names = [{word.rpartition("/")[2] for word in words} for words in commands]
    has_shell = any(SHELLS & each for each in names) or any(words[:1] == ["."] for words in commands)
    for words, each in zip(commands, names, strict=True):
        is_run = has_shell or bool(READERS & each) or bool(words and UNKNOWN.search(words[0]))
        for at, word in enumerate(words):
            if PROTECTED.search(word):
                # The first is an assignment, or a part of an expansion: both may be run later.
                yield word, is_run or at == 0


def _climbing(path: str, *, at_end: bool) -> Iterator[str]:
    """The path with `..` for each pattern that some shells match with it, as `.?` and `.*`."""
    if "/." not in path:
        return
    parts = path.split("/")
    dotted = [at for at, part in enumerate(parts[: None if at_end else -1]) if _may_climb(part)]
    if len(dotted) > MAX_DOTTED:
        yield "/".join((ANY, *parts[dotted[-1] + 1 :]))
        return
    for chosen in product((True, False), repeat=len(dotted)):
        if any(chosen):
            climbs = {at for at, is_chosen in zip(dotted, chosen, strict=True) if is_chosen}
            yield "/".join(".." if at in climbs else part for at, part in enumerate(parts))


def _may_climb(part: str) -> bool:
    pattern = UNKNOWN.sub("*", part)
    if not pattern.startswith(".") or not re.search(r"[*?\[]", pattern):
        return False
    if len(pattern) > MAX_COMPARED or re.search(r"\[[:.=]", pattern):  # a class of characters counts as any
        pattern = re.sub(r"[\[?*].*", "*", pattern, flags=re.DOTALL)
    return fnmatchcase("..", pattern.replace("[^", "[!"))


def _joined(folder: str, piece: str) -> str:
    piece = piece.replace(FOLDER, folder)
    return piece if piece.startswith(("/", ANY, MAYBE)) else f"{folder}/{piece}"


def choices(word: str) -> list[str]:
    """The words that braces make of one: `{a,b}`; a range as `{1..9}` is any text without a slash."""
    done: list[str] = []
    waiting = [RANGES.sub("*", word)]
    while waiting:
        if len(done) + len(waiting) > MAX_CHOICES:
            return [f"{word.partition('{')[0]}{ANY}"]
        each = waiting.pop()
        found = BRACES.search(each)
        if found is None:
            done.append(each)
        else:
            parts = reversed(found[1].split(","))
            waiting += [f"{each[: found.start()]}{one}{each[found.end() :]}" for one in parts]
    return done


def _after_flag(word: str) -> Iterator[str]:
    """Paths that follow a flag without a space: `-I/path`, `-rf/path`, `-Cfolder`."""
    if word.startswith("-"):
        yield word[2:]
        yield from (word[at:] for each in "/~" if (at := word.find(each)) > 0)
