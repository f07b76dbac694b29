"""Full-text search over all sessions. Any string is a valid query.

Words go to the engine's word index and all must be there; a "quoted part" and a hyphenated-word must
stand together. What a word index can't hold (emoji, scripts written without spaces) is looked for letter
by letter. A message is found where it was first said; the copies that rotations carry are not indexed.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from holdfast.sessions.codec import LARGEST, UNSTORABLE, is_storable, to_json
from holdfast.sessions.contract import SearchHit, SnippetPart, Transaction
from holdfast.sessions.transcripts import lineage

MOST_TERMS = 64
MATCH_BEGIN, MATCH_END = "\x02", "\x03"
AROUND = 60
PIECES = re.compile(r'"([^"]*)"|([^\s"]+)')
MARKS = re.compile(f"([{MATCH_BEGIN}{MATCH_END}])")
# Scripts that put no spaces between words, and Hangul, whose words carry their particles.
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003134f]"
)
ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


class Terms(NamedTuple):
    """A query taken apart: phrases of words for the index, and fragments to find as they stand."""

    phrases: tuple[tuple[str, ...], ...]
    fragments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Filters:
    """What a hit must fit. `session_id` means the whole conversation that session belongs to.

    None means any; the scope "" is that of the owner of this installation.
    """

    roles: Sequence[str] | None = None
    sources: Sequence[str] | None = None
    not_source: str | None = None
    session_id: str | None = None
    scope: str | None = None
    since: int | None = None
    until: int | None = None


def parse_query(query: str) -> Terms:
    """Take any string apart. At most 64 terms count, the first ones."""
    phrases: dict[tuple[str, ...], None] = {}
    fragments: dict[str, None] = {}
    for quoted, bare in PIECES.findall(UNSTORABLE.sub(" ", query)):
        if len(phrases) + len(fragments) >= MOST_TERMS:
            break
        piece = quoted or bare
        words = _words(piece)
        if UNSPACED.search(piece) or (not words and not piece.isascii()):
            fragments[piece.strip().translate(ASCII_LOWER)] = None
        elif words:
            phrases[words[:MOST_TERMS]] = None
    fragments.pop("", None)
    if not phrases and not fragments and query.strip():
        fragments[UNSTORABLE.sub("", query.strip())[:1000].translate(ASCII_LOWER)] = None
        fragments.pop("", None)
    return Terms(tuple(phrases), tuple(fragments))


def _words(piece: str) -> tuple[str, ...]:
    """Runs of letters and digits, with the marks that belong to them."""
    kept = (char if unicodedata.category(char)[0] in "LNM" else " " for char in piece)
    return tuple(word for word in "".join(kept).split() if any(char.isalnum() for char in word))


def search(tx: Transaction, terms: Terms, filters: Filters, limit: int) -> list[SearchHit]:
    """The best hits first for words; the newest first for fragments alone."""
    if not terms.phrases and not terms.fragments:
        return []
    sessions = None if filters.session_id is None else lineage(tx, filters.session_id)
    bound = {
        "fragments": to_json(list(terms.fragments)),
        "roles": _listed(filters.roles),
        "sources": _listed(filters.sources),
        "not_source": filters.not_source,
        "scope": filters.scope,
        "sessions": _listed(sessions),
        "since": filters.since if filters.since is not None else -LARGEST,
        "until": filters.until if filters.until is not None else LARGEST,
        "limit": limit,
    }
    if terms.phrases:
        words = tx.dialect.match_expression(terms.phrases)
        rows = tx.queries.search_words(words=words, **bound)
    else:
        rows = tx.queries.search_fragments(**bound)
    return [_hit(row, terms) for row in rows]


def _hit(row: Sequence[Any], terms: Terms) -> SearchHit:
    session_id, seq, turn_id, role, created, source, title, marked, text = row
    snippet = _excerpt(text, terms) if marked is None else _marked(marked)
    return SearchHit(session_id, seq, turn_id, role, created, source, title, snippet)


def _first(text: str, needles: Sequence[str]) -> tuple[int, int] | None:
    """Where the earliest of the needles stands."""
    places = [(text.find(each), len(each)) for each in needles]
    start, length = min((place for place in places if place[0] >= 0), default=(-1, 0))
    return None if start < 0 else (start, start + length)


def _listed(values: Sequence[str] | None) -> str | None:
    # What can't be stored is on no row, and not every engine reads it in a list.
    return None if values is None else to_json([each for each in values if is_storable(each)])


def _marked(text: str) -> tuple[SnippetPart, ...]:
    """An engine's snippet, its match marks turned into parts."""
    parts, match = [], False
    for piece in MARKS.split(text):
        if piece in (MATCH_BEGIN, MATCH_END):
            match = piece == MATCH_BEGIN
        elif piece:
            parts.append(SnippetPart(piece, match))
    return tuple(parts)


def _excerpt(text: str, terms: Terms) -> tuple[SnippetPart, ...]:
    """The surroundings of the first term that stands in the text, a word also by its stem."""
    lowered = text.translate(ASCII_LOWER)
    words = [word.translate(ASCII_LOWER) for phrase in terms.phrases for word in phrase]
    stems = [word[: max(3, len(word) - 3)] for word in words]
    found = _first(lowered, [*terms.fragments, *words]) or _first(lowered, stems)
    if found is None:
        return (SnippetPart(text[: 2 * AROUND], match=False),)
    start, end = found
    before = ("…" if start > AROUND else "") + text[max(0, start - AROUND) : start]
    after = text[end : end + AROUND] + ("…" if end + AROUND < len(text) else "")
    parts = (
        SnippetPart(before, match=False),
        SnippetPart(text[start:end], match=True),
        SnippetPart(after, match=False),
    )
    return tuple(part for part in parts if part.text)
