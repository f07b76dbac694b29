"""`read_commands`: the words of a command line as bash reads them, in one pass from left to right.

It knows quotes, expansions, substitutions and what ends a command. What only the shell can compute becomes a
mark that stands for any text. Aliases, functions, comments and here-documents are not known: their text is
words. Read `shell_words.py` first.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

ANY = "\1"
"""Any text, with or without slashes and blanks."""
MAYBE = "\2"
"""Any text, if a program reads once more what quotes protect from the shell; else what stands there."""
TILDE = "\3"
"""A `~` that quotes protect."""
FOLDER = "\4"
"""The folder that the command is in."""
REDIRECTION = ">"
"""A word of its own before the file of a redirection."""
MAX_NESTED = 40
PLAIN = re.compile(r"[^\s;&|()<>`'\"\\$~{}\[\]@+?!*]+")
SINGLE = re.compile(r"'([^']*)('|\Z)")
ESCAPED = re.compile(r"\$'(?:[^'\\]|\\.?)*('|\Z)", re.DOTALL)
BACKQUOTED = re.compile(r"`((?:[^`\\]|\\.?)*)(`|\Z)", re.DOTALL)
IN_DOUBLE = re.compile(r'[^"\\$`]+')
NAME = re.compile(r"\$(?:\{(\w+)\}|([A-Za-z_]\w*)|([0-9@*]))")
NUMBER = re.compile(r"\$(?:[?#$!-]|\{#\w+\})")
OPERATOR = re.compile(r"!?\w*[:=+?-]*")
Command = list[str]


class TooDeep(Exception):
    """The line has more levels than anybody writes."""


@dataclass(slots=True)
class ReadLine:
    """What was read of a line."""

    commands: list[Command]
    complete: bool
    """False when a quote or a bracket is never closed."""


def read_commands(text: str, value: Callable[[str], str], unknown: str = ANY) -> ReadLine:
    """Read a line; raises `TooDeep`. `value` gives a variable's value, `unknown` is the mark for the rest."""
    reader = _Reader(text, value, unknown)
    reader.read_list("")
    return ReadLine(reader.commands, reader.complete)


def without_redirections(words: Command) -> Command:
    """The words that a program gets."""
    kept: list[str] = []
    before = ""
    for word in words:
        if REDIRECTION not in {word, before}:
            kept.append(word)
        before = word
    return kept


class _Reader:
    def __init__(self, text: str, value: Callable[[str], str], unknown: str, depth: int = 0) -> None:
        self._text = text
        self._value = value
        self._unknown = unknown
        self._at = 0
        self._depth = depth
        self.commands: list[Command] = []
        self.complete = True

    def read_list(self, closing: str) -> None:
        """Read commands up to `closing`, or to the end of the text."""
        self._depth += 1
        if self._depth > MAX_NESTED:
            raise TooDeep
        words: list[str] = []
        pieces: list[str] = []
        while char := self._text[self._at : self._at + 1]:
            if char == closing:
                break
            if (char.isspace() or char in ";&|()<>") and (end := self._separator(char, pieces)):
                words += ["".join(pieces)] if pieces else []
                pieces = []
                if end == REDIRECTION:
                    words.append(REDIRECTION)
                elif end == "command":
                    self.commands.append(words)
                    words = []
            elif not char.isspace() and char not in ";&|()<>":
                pieces.append(self._piece())
        self.commands.append([*words, "".join(pieces)] if pieces else words)
        self.complete = self.complete and (not closing or char == closing)
        self._at += 1
        self._depth -= 1

    def _separator(self, char: str, pieces: list[str]) -> str:
        """What ends here: a word or a command. A substitution of a process is a piece of a word."""
        before, after = self._text[max(0, self._at - 1) : self._at], self._text[self._at + 1 : self._at + 2]
        self._at += 1
        if char in "<>" and after == "(":
            self._at += 1
            self.read_list(")")
            pieces.append(self._unknown)
            return ""
        if char == "(":
            self.read_list(")")
        elif char == ")":
            self.complete = False
        # `2>&1`, `&>file` and `>|file` end no command.
        redirects = (char in "&|" and before in {"<", ">"}) or (char == "&" and after == ">")
        if char in "<>":
            return REDIRECTION
        return "word" if redirects or (char.isspace() and char != "\n") else "command"

    def _piece(self) -> str:
        """The next characters of a word, without quotes."""
        text, at = self._text, self._at
        char = text[at]
        if char == "\\":
            self._at += 2
            return _protected(text[at + 1 : at + 2].replace("\n", "")) if self._at <= len(text) else char
        if char == "'":
            return _protected(self._match(SINGLE)[1])
        if char == '"':
            return self._double()
        if char in "$`":
            return self._expansion(quoted=False)
        if char in "@+?!*" and text.startswith("(", at + 1):
            self._at += 2
            self.read_list(")")
            return self._unknown
        found = PLAIN.match(text, at)
        self._at = found.end() if found else at + 1
        return found[0] if found else char

    def _double(self) -> str:
        self._at += 1
        pieces: list[str] = []
        while char := self._text[self._at : self._at + 1]:
            if char == '"':
                break
            pieces.append(self._double_piece())
        self.complete = self.complete and bool(char)
        self._at += 1
        return "".join(pieces)

    def _double_piece(self) -> str:
        """The next characters inside of double quotes."""
        char = self._text[self._at]
        if char == "\\":
            after = self._text[self._at + 1 : self._at + 2]
            self._at += 2
            return after.replace("\n", "") if after in '$`"\\\n' else char + after
        if char in "$`":
            return self._expansion(quoted=True)
        if char == '"':
            return self._double()
        return _protected(self._match(IN_DOUBLE)[0])

    def _expansion(self, *, quoted: bool) -> str:
        text, at = self._text, self._at
        if text[at] == "`":
            return self._backquoted()
        if found := NAME.match(text, at):
            self._at = found.end()
            return self._value(found[1] or found[2] or found[3])
        if found := NUMBER.match(text, at):
            self._at = found.end()
            return "*"  # no slash is in it
        return self._bracketed(text[at + 1 : at + 2], quoted=quoted)

    def _bracketed(self, opening: str, *, quoted: bool) -> str:
        """`$(…)`, `${…}`, `$[…]`, `$'…'`, `$"…"`, or a `$` alone."""
        if opening == "'" and not quoted:
            _ = self._match(ESCAPED)
            return self._unknown
        if opening and opening in "({[":
            self._at += 2
            if opening == "(":
                self.read_list(")")
            else:
                # What follows the name, as in `${NAME:-path}`, may be a path too.
                inner = self._operand(opening, quoted=quoted)
                self.commands += [[inner], [OPERATOR.sub("", inner, count=1)]]
            return self._unknown
        self._at += 1
        return "" if opening == '"' and not quoted else "$"

    def _operand(self, opening: str, *, quoted: bool) -> str:
        # Bash counts the brackets in `$[…]`; `${…}` ends at the first brace.
        closing, deeper = ("]", "[") if opening == "[" else ("}", "")
        pieces: list[str] = []
        open_brackets = 1
        self._depth += 1
        if self._depth > MAX_NESTED:
            raise TooDeep
        while char := self._text[self._at : self._at + 1]:
            open_brackets += (char == deeper) - (char == closing)
            if not open_brackets:
                break
            if quoted and char in closing + deeper:
                self._at += 1
                pieces.append(char)
            else:
                pieces.append(self._double_operand() if quoted else self._piece())
        self._depth -= 1
        self.complete = self.complete and bool(char)
        self._at += 1
        return "".join(pieces)

    def _double_operand(self) -> str:
        """As `_double_piece`, one character at a time, so that a closing bracket is seen."""
        if self._text[self._at] in '\\$`"':
            return self._double_piece()
        self._at += 1
        return self._text[self._at - 1]

    def _backquoted(self) -> str:
        inner = re.sub(r"\\([$`\\])", r"\1", self._match(BACKQUOTED)[1])
        nested = _Reader(inner, self._value, self._unknown, self._depth)
        nested.read_list("")
        self.commands += nested.commands
        self.complete = self.complete and nested.complete
        return self._unknown

    def _match(self, expression: re.Pattern[str]) -> re.Match[str]:
        """Take what begins here; its last group, if it has one, is empty when the end is missing."""
        found = expression.match(self._text, self._at)
        if found is None:
            raise ValueError(self._text[self._at :])
        self._at = found.end()
        self.complete = self.complete and found[expression.groups] != ""
        return found


def _protected(text: str) -> str:
    return text.replace("~", TILDE)
