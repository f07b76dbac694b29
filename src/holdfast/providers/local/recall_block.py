"""Found passages as text for the prompt, with dates, without duplicates, within a token budget."""

from collections.abc import Callable, Sequence
from datetime import tzinfo

from holdfast.providers.local.full_text import Position
from holdfast.providers.local.passages import local_time
from holdfast.providers.local.recall import FoundPassage
from holdfast.providers.recall_text import HEAD, estimated_tokens, one_line, recall_block_text

WITH_CONTEXT = 3
MAX_LINE_LENGTH = 600


def recall_block(
    found: Sequence[FoundPassage],
    before: Callable[[Sequence[Position]], Sequence[FoundPassage]],
    *,
    budget: int,
    zone: tzinfo | None,
) -> str:
    """The best passages first, the best few with the passage before them. Empty when nothing fits."""
    context = {memory.position: memory for memory in before(_positions_before(found[:WITH_CONTEXT]))}
    lines, seen = [], set[str]()
    left = budget - estimated_tokens(HEAD)
    for rank, memory in enumerate(found):
        said_before = context.get(_before(memory.position)) if rank < WITH_CONTEXT else None
        for each in (said_before, memory):
            if each is None or _normal(each.text) in seen:
                continue
            line = _line(each, zone)
            cost = estimated_tokens("\n" + line)
            if cost > left:
                continue
            seen.add(_normal(each.text))
            lines.append(line)
            left -= cost
    return recall_block_text(lines)


def _positions_before(found: Sequence[FoundPassage]) -> list[Position]:
    return [_before(memory.position) for memory in found if memory.kind == "turn"]


def _before(position: Position) -> Position:
    return position[0], position[1] - 1


def _line(memory: FoundPassage, zone: tzinfo | None) -> str:
    when = local_time(memory.created, zone)
    text = one_line(memory.text, MAX_LINE_LENGTH)
    who = f"note {memory.id}" if memory.kind == "note" else memory.speaker
    # A message of a group chat already begins with its author's name.
    line = text if text.lower().startswith(f"{memory.speaker}: ") else f"{who}: {text}"
    return f"- [{when.day} {when:%B %Y, %H:%M}] {line}"


def _normal(text: str) -> str:
    return " ".join(text.casefold().split())
