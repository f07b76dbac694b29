"""What was found, as text for the prompt: with dates, each thing once, cut to a budget of tokens."""

from collections.abc import Callable, Sequence
from datetime import tzinfo

from holdfast.memory.providers.local.lexical import Place
from holdfast.memory.providers.local.passages import moment
from holdfast.memory.providers.local.recall import Memory
from holdfast.memory.providers.recalled import HEAD, block, estimated_tokens, one_line

WITH_CONTEXT = 3
LONGEST_LINE = 600


def recall_block(
    found: Sequence[Memory],
    before: Callable[[Sequence[Place]], Sequence[Memory]],
    *,
    budget: int,
    zone: tzinfo | None,
) -> str:
    """The best first; the best few with what was said just before them. Empty when nothing fits."""
    context = {memory.place: memory for memory in before(_places_before(found[:WITH_CONTEXT]))}
    lines, seen = [], set[str]()
    left = budget - estimated_tokens(HEAD)
    for rank, memory in enumerate(found):
        said_before = context.get(_before(memory.place)) if rank < WITH_CONTEXT else None
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
    return block(lines)


def _places_before(found: Sequence[Memory]) -> list[Place]:
    return [_before(memory.place) for memory in found if memory.kind == "turn"]


def _before(place: Place) -> Place:
    return place[0], place[1] - 1


def _line(memory: Memory, zone: tzinfo | None) -> str:
    when = moment(memory.created, zone)
    text = one_line(memory.text, LONGEST_LINE)
    who = f"note {memory.id}" if memory.kind == "note" else memory.speaker
    # A message of a group chat already begins with its author's name.
    said = text if text.lower().startswith(f"{memory.speaker}: ") else f"{who}: {text}"
    return f"- [{when.day} {when:%B %Y, %H:%M}] {said}"


def _normal(text: str) -> str:
    return " ".join(text.casefold().split())
