"""A turn as passages: what is indexed, embedded and found. Pure functions.

A passage has its own speaker, so that a question about a person finds what that person said. A long text
is cut where it breathes, because the embedding model reads no more than about a thousand letters.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from holdfast.memory.contract import CompletedTurn

USER, ASSISTANT, NOTE = "user", "assistant", "note"
LONGEST = 1200
SHORTEST_CUT = 400
BREAKS = ("\n\n", "\n", ". ", "! ", "? ", "。", "; ", ", ", " ")
# In a group chat a message begins with its author's name.
NAMED = re.compile(r"([^\W\d_][\w.'-]{0,30}(?: [^\W\d_][\w.'-]{0,30})?): \S")
# Scripts that put no spaces between words, and Hangul, whose words carry their particles.
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003134f]+"
)
PICTURES = re.compile("[\u2600-\u27bf\U0001f000-\U0001faff]")
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
    """The name that a message of a group chat begins with, or else the user."""
    named = NAMED.match(text)
    return named[1].lower() if named else USER


def without_author(speaker: str, text: str) -> str:
    """What was said, without the name it begins with in a group chat."""
    return text[len(speaker) + 2 :] if text.lower().startswith(f"{speaker}: ") else text


def storable(text: str) -> str:
    """Without the characters that SQLite or UTF-8 can't hold."""
    return UNSTORABLE.sub(" ", text).strip()


def pieces(text: str) -> Iterator[str]:
    """Cut at the last paragraph, line, sentence or space before the limit, or else right there."""
    while len(text) > LONGEST:
        ends = (text.rfind(mark, SHORTEST_CUT, LONGEST) + len(mark) for mark in BREAKS)
        end = next(
            (end for end, mark in zip(ends, BREAKS, strict=True) if end >= SHORTEST_CUT + len(mark)), LONGEST
        )
        yield text[:end].strip()
        text = text[end:].strip()
    if text:
        yield text


def moment(created: float, zone: tzinfo | None) -> datetime:
    """The time in the given zone, or else in the machine's."""
    return datetime.fromtimestamp(created, UTC).astimezone(zone)


def day_in_words(created: float, zone: tzinfo | None) -> str:
    """The day as people ask for it: "Monday 8 May 2023"."""
    day = moment(created, zone)
    return f"{day:%A} {day.day} {day:%B %Y}"


def unspaced(text: str) -> str:
    """What a word index can't cut by itself, as words: pairs of letters, and pictures by their code."""
    words = [pair for run in UNSPACED.findall(text) for pair in _pairs(run)]
    words.extend(f"u{ord(picture):x}" for picture in PICTURES.findall(text))
    return " ".join(dict.fromkeys(words))


def _pairs(run: str) -> list[str]:
    return [run[start : start + 2] for start in range(max(1, len(run) - 1))]
