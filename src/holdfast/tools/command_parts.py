"""Splits a command line into the simple commands that a shell would run.

It splits only syntax that every shell (bash, dash, busybox, the `sh` of a container) reads in the same way.
For anything else `command_parts` returns None, and then no allow rule covers the line. A mistake here may ask
a person too often, but must never ask too rarely.
"""

import re

SEPARATORS = ("&&", "||", "|&", ";", "|", "&", "\n")
# Words that begin syntax which this parser does not know.
RESERVED = frozenset(
    [
        "!",
        "[[",
        "{",
        "}",
        "case",
        "coproc",
        "do",
        "done",
        "elif",
        "else",
        "esac",
        "fi",
        "for",
        "function",
        "if",
        "in",
        "select",
        "then",
        "time",
        "until",
        "while",
    ]
)
PLAIN_VARIABLE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\}|[0-9?#$!@*-])")
# Redirections that neither read nor write a file: to another descriptor, or to /dev/null. One digit at most:
# of two digits some shells read the first as an argument. `&>` is a redirection in bash, but in dash it ends
# a command and begins the next, so it is accepted only at the end of a command, where both mean the same.
HARMLESS = re.compile(
    r"[0-9]?>>?[ \t]*/dev/null(?=[ \t\n;&|)]|\Z)"
    r"|[0-9]?>&[0-9](?=[ \t\n;&|)]|\Z)"
    r"|&>>?[ \t]*/dev/null(?=[ \t]*(?:[\n;|)]|&&|\Z))"
)
# Bytes that are blanks in some locales, but parts of letters in UTF-8.
BLANK_BYTES = (b"\x85", b"\xa0")
BLANKS = re.compile(r"[ \t]+")
MAX_NESTED = 20


class _NotUnderstood(Exception):
    """The line has syntax that this parser does not know."""


def command_parts(line: str) -> list[str] | None:
    """Every simple command of the line, with single blanks; None when the line is not fully understood."""
    if any((char < " " and char not in "\t\n") or "\ud800" <= char <= "\udfff" for char in line):
        return None
    try:
        reader = _CommandParser(line)
        reader.read_list(closing="")
    except _NotUnderstood:
        return None
    return reader.parts or None


def _maybe_blank(char: str) -> bool:
    """Whether a non-ASCII character ends a word in some locale; then a `#` after it begins a comment."""
    if char.isascii():
        return False
    return char.isspace() or any(byte in char.encode() for byte in BLANK_BYTES)


class _CommandParser:
    """Reads a line once, from left to right."""

    def __init__(self, line: str) -> None:
        self._line = line
        self._at = 0
        self._depth = 0
        self.parts: list[str] = []

    def read_list(self, closing: str) -> None:
        """Read commands up to `closing`, or to the end of the line when that is empty."""
        command: list[str] = []
        while self._at < len(self._line):
            if closing and self._line.startswith(closing, self._at):
                self._finish(command)
                self._at += 1
                return
            separator = self._separator()
            if separator:
                self._at += len(separator)
                self._finish(command)
                command = []
            else:
                command.append(self._piece(at_start=not command or command[-1] == " "))
        if closing:
            raise _NotUnderstood
        self._finish(command)

    def _separator(self) -> str:
        if HARMLESS.match(self._line, self._at):
            return ""  # `&>/dev/null` is no `&`
        return next((each for each in SEPARATORS if self._line.startswith(each, self._at)), "")

    def _piece(self, *, at_start: bool) -> str:
        """One character, quoted text, expansion or run of blanks."""
        line, start = self._line, self._at
        char = line[start]
        if blanks := BLANKS.match(line, start):
            self._at = blanks.end()
            return " "
        if (at_start or char in ">&") and (found := HARMLESS.match(line, start)):
            self._at = found.end()
            return " "
        if char in "><(){}`" or (char == "#" and at_start) or _maybe_blank(char):
            raise _NotUnderstood
        if char == "\\":
            # A joined line may turn the next `#` into a comment, which hides the rest of the line.
            if line[start + 1 : start + 2] in ("", "\n"):
                raise _NotUnderstood
            self._at += 2
        elif char == "'":
            end = line.find("'", start + 1)
            if end < 0:
                raise _NotUnderstood
            self._at = end + 1
        elif char == '"':
            self._double_quoted()
        elif char == "$":
            self._expansion()
        else:
            self._at += 1
        return line[start : self._at]

    def _double_quoted(self) -> None:
        self._at += 1
        while self._at < len(self._line):
            char = self._line[self._at]
            if char == '"':
                self._at += 1
                return
            if char == "`":
                raise _NotUnderstood
            if char == "$" and self._line[self._at + 1 : self._at + 2] not in ('"', " ", ""):
                self._expansion()
            else:
                self._at += 2 if char == "\\" else 1
        raise _NotUnderstood

    def _expansion(self) -> None:
        if self._line.startswith("$((", self._at):
            raise _NotUnderstood
        if self._line.startswith("$(", self._at):
            self._at += 2
            self._depth += 1
            if self._depth > MAX_NESTED:
                raise _NotUnderstood
            before = len(self.parts)
            self.read_list(closing=")")
            self._depth -= 1
            if len(self.parts) == before:
                raise _NotUnderstood
            return
        found = PLAIN_VARIABLE.match(self._line, self._at)
        if found is None:
            raise _NotUnderstood
        self._at = found.end()

    def _finish(self, command: list[str]) -> None:
        text = "".join(command).strip(" ")
        if not text:
            return
        if text.split(" ", 1)[0] in RESERVED:
            raise _NotUnderstood
        self.parts.append(text)
