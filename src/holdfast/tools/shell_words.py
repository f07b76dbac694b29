"""`ShellWords`: the words of a command line, as bash would read them before it starts a program.

What only the shell will know is marked: `ANY` stands for any text. A pattern of file names stays one. Read
`command_paths.py` first.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ANY = "\1"
"""Any text, with or without slashes."""
MAX_CHOICES = 64
MAX_FOLDERS = 16
QUOTES = str.maketrans("", "", "\\'\"")
BREAKS = re.compile(r"[\s;&|()<>`]+")
INNER = re.compile(r"[=:@,]")
BRACES = re.compile(r"\{([^{}]*)\}")
QUOTED_WORD = re.compile(r"""(?:[^\s'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+""", re.DOTALL)
QUOTE = re.compile(r"\\(.)|['\"]", re.DOTALL)
EXPANSION = re.compile(r"\$(?:\{(\w+)\}|([A-Za-z_]\w*)|([$?#!-])|(\{[^{}]*\}|[{(@*0-9]))|`")
SUBSTITUTION = re.compile(r"`[^`]*`|\$\(\([^()]*\)\)|[$<>]\([^()]*\)|\$\{\w*\W[^{}]*\}|\$'(?:[^'\\]|\\.)*'")
TOKEN = re.compile(r"""\\.|\$'(?:[^'\\]|\\.)*'|'[^']*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
READS_AGAIN = re.compile(r"#|<<|\b(?:eval|source|\w*sh)\b")
"""With one of these, single quotes may not protect what is in them, or a quote may be none."""
ODD_TILDE = re.compile(r"~[-+]?[0-9]|~-")
EXTENDED = re.compile(r"[@+?!*]\(")
NUMBERS = frozenset({"PPID", "UID", "EUID", "RANDOM", "SRANDOM", "LINENO", "SECONDS", "BASHPID", "SHLVL"})
SET_BY_SHELL = re.compile(r"BASH\w*|OLDPWD|_|DIRSTACK|FUNCNAME|GROUPS|HOST\w+|MACHTYPE|OPT\w+|OSTYPE|REPLY")


@dataclass(frozen=True, slots=True)
class ShellWords:
    """A command line that the shell gets in `folder` with `environment`."""

    command: str
    folder: Path
    environment: Mapping[str, str]

    def has_unknown(self) -> bool:
        """Whether a word holds something that only the shell will know, which could be any path."""
        command = self.command.replace("\\\n", "")
        if not READS_AGAIN.search(command):
            command = TOKEN.sub(_unquoted, command)
        if ANY in self._filled(_collapsed(command), "") or EXTENDED.search(command):
            return True
        words = BREAKS.split(command.translate(QUOTES))
        pieces = {piece for word in words for piece in (word, *INNER.split(word))}
        changes_folder = not pieces.isdisjoint({"cd", "pushd", "popd"})
        return any(ODD_TILDE.match(each) for each in pieces) or (
            changes_folder and ("-" in pieces or bool(self.environment.get("CDPATH")))
        )

    def paths(self) -> Iterator[str]:
        """Each word and part of a word as a whole path, which may hold `..`, patterns and `ANY`."""
        command = self.command.replace("\\\n", "")
        words = [*_words(command), *_words(_collapsed(command))]
        folders = self._folders(words)
        for word in words:
            for folder in folders:
                yield from (_joined(folder, each) for each in self._pieces(word, folder))

    def _folders(self, words: list[str]) -> list[str]:
        """The folders that the command may be in when a program starts."""
        folders = [os.fspath(self.folder)]
        for at, word in enumerate(words):
            if word not in {"cd", "pushd"}:
                continue
            target = next((each for each in words[at + 1 :] if each not in {"", "-L", "-P", "-e", "--"}), "~")
            targets = [target, "~"] if re.search(r"\b(cd|pushd)\s*([;&|)]|$)", self.command) else [target]
            for folder in tuple(folders):
                folders += [_joined(folder, each) for aim in targets for each in self._pieces(aim, folder)]
            folders = list(dict.fromkeys(folders))
            if len(folders) > MAX_FOLDERS:
                return [os.fspath(self.folder), ANY]
        return folders

    def _pieces(self, word: str, folder: str) -> Iterator[str]:
        for choice in _choices(self._filled(word, folder)):
            for piece in (choice, *INNER.split(choice), *_after_flag(choice)):
                if piece and "\0" not in piece:
                    yield self._without_tilde(piece, folder)

    def _filled(self, text: str, folder: str) -> str:
        return EXPANSION.sub(lambda found: self._value(found[1] or found[2], found[3], folder), text)

    def _value(self, name: str | None, number: str | None, folder: str) -> str:
        if number or (name in NUMBERS and not self._is_set(name)):
            return "*"  # no slash is in it
        if name is None or self._is_set(name) or SET_BY_SHELL.fullmatch(name):
            return ANY
        # The shell sets PWD itself, whatever it was given.
        return folder if name == "PWD" else self.environment.get(name, ANY)

    def _is_set(self, name: str) -> bool:
        """Whether the command itself may set a variable: it names it without reading it."""
        return bool(re.search(rf"(?<![\w$])(?<!\$\{{){name}\b", self.command))

    def _without_tilde(self, piece: str, folder: str) -> str:
        if not piece.startswith("~"):
            return piece
        name, slash, rest = piece.partition("/")
        if name == "~":
            home = self._value("HOME", None, folder)
        elif name == "~+":
            home = self._value("PWD", None, folder)
        else:
            home = ANY if ODD_TILDE.match(name) else os.path.expanduser(name)  # noqa: PTH111
        return f"{home}{slash}{rest}"


def _unquoted(token: re.Match[str]) -> str:
    """A quoted token without what the shell does not read in it."""
    text = token[0]
    if text.startswith("'"):
        return "x"
    return "x" if text.startswith("\\") else re.sub(r"\\.", "x", text)


def _collapsed(text: str) -> str:
    """The text with `ANY` for what the shell computes."""
    before = ""
    while before != text:
        before, text = text, SUBSTITUTION.sub(ANY, text)
    return text


def _joined(folder: str, piece: str) -> str:
    return piece if piece.startswith(("/", ANY)) else f"{folder}/{piece}"


def _words(command: str) -> Iterator[str]:
    yield from BREAKS.split(command.translate(QUOTES))
    # A path may contain blanks. shlex is not used: its time grows with the square of a word's length.
    for word in QUOTED_WORD.finditer(command):
        # What ends a command may follow without a blank.
        yield QUOTE.sub(lambda found: found[1] or "", word[0].strip(";&|()<>`"))


def _choices(word: str) -> list[str]:
    """The words that braces make of one: `{a,b}`; a range as `{1..9}` is any text."""
    done: list[str] = []
    waiting = [word]
    while waiting:
        if len(done) + len(waiting) > MAX_CHOICES:
            return [f"{word.partition('{')[0]}{ANY}"]
        each = waiting.pop()
        found = next((one for one in BRACES.finditer(each) if "," in one[1] or ".." in one[1]), None)
        if found is None:
            done.append(each)
        else:
            choices = found[1].split(",") if "," in found[1] else [ANY]
            waiting += [f"{each[: found.start()]}{one}{each[found.end() :]}" for one in choices]
    return done


def _after_flag(word: str) -> Iterator[str]:
    """Paths that follow a flag without a space: `-I/path`, `-rf/path`, `-Cfolder`."""
    if word.startswith("-"):
        yield word[2:]
        yield from (word[at:] for each in "/~" if (at := word.find(each)) > 0)
