"""Reads an answer that is constrained to JSON, piece by piece, while the model writes it.

The document is `{"answer": "text"}` or `{"tool_calls": [{"name": "…", "arguments": {…}}, …]}`. The reader
returns the text decoded, and the arguments of a call unchanged. Text that is not a JSON object is returned
unchanged.
"""

from collections.abc import Callable, Generator
from string import hexdigits, whitespace

from holdfast.core.ids import new_id
from holdfast.models.contract import ModelPiece, TextPiece, ToolCallPiece

ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
HIGH = range(0xD800, 0xDC00)
LOW = range(0xDC00, 0xE000)
UNPAIRED = "\ufffd"

Parsing = Generator[None, str, str]
"""Takes one character at each step. Returns the character that it read too many, or an empty text."""
Emit = Callable[[str], None]


class UnexpectedJson(ValueError):
    """The text isn't the JSON that was asked for."""


class AnswerReader:
    """One answer while it arrives."""

    def __init__(self) -> None:
        self._parsing: Parsing = self._document()
        self._text: list[str] = []
        self._arguments: list[str] = []
        self._pieces: list[ModelPiece] = []
        self.whole = False
        """Whether the document is complete."""
        self.calls = 0
        """How many tool calls have begun."""
        next(self._parsing)

    def pieces(self, text: str) -> list[ModelPiece]:
        """The pieces that the next text adds; raises `UnexpectedJson`."""
        try:
            for character in text:
                self._parsing.send(character)
        except StopIteration:
            raise UnexpectedJson("something follows the end of the answer") from None
        self._flush()
        pieces, self._pieces = self._pieces, []
        return pieces

    def _flush(self) -> None:
        if self._text:
            self._pieces.append(TextPiece("".join(self._text)))
            self._text.clear()
        if self._arguments:
            self._pieces.append(ToolCallPiece(self.calls - 1, arguments="".join(self._arguments)))
            self._arguments.clear()

    def _document(self) -> Parsing:
        first = yield from _past_space()
        if first != "{":
            self.whole = True
            yield from self._plain(first)
        yield from self._members({"answer": self._answer, "tool_calls": self._tool_calls})
        self.whole = True
        while (yield) in whitespace:
            pass
        return ""

    def _plain(self, first: str) -> Generator[None, str, None]:
        self._text.append(first)
        while True:
            self._text.append((yield))

    def _answer(self, first: str) -> Parsing:
        _expect(first, '"')
        yield from _string(self._text.append)
        return ""

    def _tool_calls(self, first: str) -> Parsing:
        _expect(first, "[")
        character = yield from _past_space()
        while character != "]":
            _expect(character, "{")
            self._flush()
            self.calls += 1
            self._pieces.append(ToolCallPiece(self.calls - 1, id=f"call_{new_id()}"))
            yield from self._members({"name": self._name, "arguments": self._raw_arguments})
            self._flush()
            character = yield from _past_space()
            if character == ",":
                character = yield from _past_space()
                _expect(character, "{")
        return ""

    def _name(self, first: str) -> Parsing:
        _expect(first, '"')
        name: list[str] = []
        yield from _string(name.append)
        self._pieces.append(ToolCallPiece(self.calls - 1, name="".join(name)))
        return ""

    def _raw_arguments(self, first: str) -> Parsing:
        _expect(first, "{")
        depth = 0
        quoted = escaped = False
        character = first
        while True:
            self._arguments.append(character)
            if quoted:
                quoted = escaped or character != '"'
                escaped = character == "\\" and not escaped
            elif character == '"':
                quoted = True
            else:
                depth += (character in "{[") - (character in "}]")
                if depth == 0:
                    return ""
            character = yield

    def _members(self, readers: dict[str, Callable[[str], Parsing]]) -> Parsing:
        """The members of an object after its opening brace."""
        character = yield from _past_space()
        while character != "}":
            _expect(character, '"')
            key: list[str] = []
            yield from _string(key.append)
            _expect((yield from _past_space()), ":")
            reader = readers.get("".join(key))
            if reader is None:
                raise UnexpectedJson(f"it has the unknown part {''.join(key)!r}")
            yield from reader((yield from _past_space()))
            character = yield from _past_space()
            if character == ",":
                character = yield from _past_space()
                _expect(character, '"')
        return ""


def _expect(found: str, wanted: str) -> None:
    if found != wanted:
        raise UnexpectedJson(f"found {found!r} instead of {wanted!r}")


def _past_space() -> Parsing:
    while (character := (yield)) in whitespace:
        pass
    return character


def _string(emit: Emit) -> Parsing:
    """The rest of a string after its opening quote, decoded."""
    character = yield
    while character != '"':
        if character == "\\":
            character = yield from _escape((yield), emit)
            continue
        emit(character)
        character = yield
    return ""


def _escape(kind: str, emit: Emit) -> Parsing:
    """One escape; returns the character after it. Two escaped surrogates make one character."""
    if kind != "u":
        if kind not in ESCAPES:
            raise UnexpectedJson(f"\\{kind} is no escape")
        emit(ESCAPES[kind])
        return (yield)
    unit = yield from _unit()
    following = yield
    while int(unit, 16) in HIGH:
        if following != "\\":
            emit(UNPAIRED)
            return following
        kind = yield
        if kind != "u":
            emit(UNPAIRED)
            return (yield from _escape(kind, emit))
        low = yield from _unit()
        if int(low, 16) in LOW:
            emit(bytes.fromhex(unit + low).decode("utf-16-be"))
            return (yield)
        emit(UNPAIRED)
        unit = low
        following = yield
    emit(UNPAIRED if int(unit, 16) in LOW else chr(int(unit, 16)))
    return following


def _unit() -> Parsing:
    """The four digits of an escape."""
    digits = ""
    while len(digits) < 4:  # noqa: PLR2004 - four hexadecimal digits
        digit = yield
        if digit not in hexdigits:
            raise UnexpectedJson(f"{digit!r} is no hexadecimal digit")
        digits += digit
    return digits
