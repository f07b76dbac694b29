"""Splits a turn into passages, which are indexed, embedded and found. Pure functions.

A passage has one speaker, so that a question about a person finds what that person said. A long text is cut
at paragraphs or sentences, because the embedding model reads only about a thousand letters.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from holdfast.memory.contract import CompletedTurn

USER, ASSISTANT, NOTE = "user", "assistant", "note"
MAX_LENGTH = 1200
MIN_CUT_LENGTH = 400
BREAKS = ("\n\n", "\n", ". ", "! ", "? ", "。", "; ", ", ", " ")
# In a group chat a message starts with the name of its author.
NAMED = re.compile(r"([^\W\d_][\w.'-]{0,30}(?: [^\W\d_][\w.'-]{0,30})?): \S")
# Scripts without spaces between words, and Hangul, whose words include particles.
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003134f]+"
)
EMOJI = re.compile("[\u2600-\u27bf\U0001f000-\U0001faff]")
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
MICRO = 1_000_000


@dataclass(frozen=True, slots=True)
class Passage:
    """One piece of a turn, or a note, as it is stored."""

    speaker: str
    text: str
    day: str
    unspaced: str
    created: int


def turn_passages(turn: CompletedTurn, zone: tzinfo | None) -> list[Passage]:
    """The question, then the answer, each in pieces of readable length."""
    spoken = ((USER, turn.user_content), (ASSISTANT, turn.assistant_content))
    return [
        passage(author if author != USER else author_of(text), piece, turn.completed, zone)
        for author, text in spoken
        for piece in pieces(storable(text))
    ]


def passage(speaker: str, text: str, created: float, zone: tzinfo | None) -> Passage:
    return Passage(speaker, text, day_in_words(created, zone), unspaced(text), int(created * MICRO))


def author_of(text: str) -> str:
    """The name at the start of a message of a group chat, or else the user."""
    named = NAMED.match(text)
    return named[1].lower() if named else USER


def without_author(speaker: str, text: str) -> str:
    """The message without the name at its start."""
    end = len(speaker) + 2
    return text[end:] if text[:end].lower().startswith(f"{speaker}: ") else text


def storable(text: str) -> str:
    """The text without characters that SQLite or UTF-8 can't store."""
    return UNSTORABLE.sub(" ", text).strip()


def pieces(text: str) -> Iterator[str]:
    """Cut the text at the last paragraph, line, sentence or space before the limit, or at the limit."""
    while len(text) > MAX_LENGTH:
        ends = (text.rfind(mark, MIN_CUT_LENGTH, MAX_LENGTH) + len(mark) for mark in BREAKS)
        end = next(
            (end for end, mark in zip(ends, BREAKS, strict=True) if end >= MIN_CUT_LENGTH + len(mark)),
            MAX_LENGTH,
        )
        yield text[:end].strip()
        text = text[end:].strip()
    if text:
        yield text


def local_time(created: float, zone: tzinfo | None) -> datetime:
    """The time in the given zone, or else in that of the machine."""
    return datetime.fromtimestamp(created, UTC).astimezone(zone)


def day_in_words(created: float, zone: tzinfo | None) -> str:
    """The day as people ask for it: "Monday 8 May 2023"."""
    day = local_time(created, zone)
    return f"{day:%A} {day.day} {day:%B %Y}"


def unspaced(text: str) -> str:
    """Words for the index from text it can't split: pairs of letters, and emoji by their code."""
    words = [pair for run in UNSPACED.findall(text) for pair in _pairs(run)]
    words.extend(f"u{ord(picture):x}" for picture in EMOJI.findall(text))
    return " ".join(dict.fromkeys(words))


def _pairs(run: str) -> list[str]:
    return [run[start : start + 2] for start in range(max(1, len(run) - 1))]
