"""Found passages and facts as text for the prompt: dated, said by whom, without repetitions, within a budget.

The best are chosen first. They are then arranged to be read: notes, facts, then one conversation after the
other, each in the order in which it was held. A line that a newer one contradicts says so.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo

from holdfast.providers.holographic.claims import claims_of, exclude_each_other
from holdfast.providers.holographic.tokens import sentences
from holdfast.providers.local.full_text import Position
from holdfast.providers.local.passages import ASSISTANT, local_time, without_author
from holdfast.providers.local.recall import FoundPassage
from holdfast.providers.local.words import query_words
from holdfast.providers.recall_text import HEAD, estimated_tokens, one_line, recall_block_text

WITH_CONTEXT = 3
# Quicker than `all_words`: a recall compares some ten thousand letters.
WORD = re.compile(r"\w+")
MAX_LINE_LENGTH = 600
OUTDATED = "; a newer line says otherwise"
# A shorter text, such as "yes" or a name, can be an answer of its own.
MIN_CONTAINED_WORDS = 3
# Words that begin with the same letters count as the same: "live" and "lives".
BEGINNING = 4


@dataclass(frozen=True, slots=True)
class RecalledLine:
    """One line of the block before it is written."""

    label: str
    """The speaker; empty when the text itself names its author."""
    text: str
    created: float
    order: tuple[int, ...]
    """Lines are arranged by the first number, then those of one conversation by the rest."""
    passage_id: int | None = None
    fact_id: int | None = None

    @property
    def words(self) -> str:
        """The words in lower case, with a space around each, for comparisons."""
        return f" {' '.join(WORD.findall(self.text.casefold()))} "


@dataclass(frozen=True, slots=True)
class RecallBlock:
    """The text of a recall, and the lines in it."""

    text: str = ""
    lines: tuple[RecalledLine, ...] = ()

    @property
    def passages(self) -> list[tuple[int, str]]:
        """The id and the text of each passage in it."""
        return [(line.passage_id, line.text) for line in self.lines if line.passage_id is not None]


def alternating(lines: Sequence[RecalledLine], facts: Sequence[RecalledLine]) -> list[RecalledLine]:
    """Lines of both sources in turn, best first, so that neither uses up the budget."""
    pairs = [each for pair in zip(lines, facts, strict=False) for each in pair]
    rest = min(len(lines), len(facts))
    return [*pairs, *lines[rest:], *facts[rest:]]


def passage_lines(
    found: Sequence[FoundPassage], before: Callable[[Sequence[Position]], Sequence[FoundPassage]]
) -> list[RecalledLine]:
    """The passages as lines, best first, the best few with the passage before them."""
    context = {memory.position: memory for memory in before(_positions_before(found[:WITH_CONTEXT]))}
    lines = []
    for rank, memory in enumerate(found):
        said_before = context.get(memory.position - 1) if rank < WITH_CONTEXT else None
        lines += [_passage_line(each) for each in (said_before, memory) if each is not None]
    return lines


def recall_block(
    query: str, lines: Sequence[RecalledLine], *, budget: int, zone: tzinfo | None
) -> RecallBlock:
    """Choose from lines that are given best first, and arrange them. Empty when nothing fits."""
    chosen = _within(_without_repetitions(lines), budget - estimated_tokens(HEAD), zone)
    first_rank: dict[int, int] = {}
    for rank, line in enumerate(chosen):
        first_rank.setdefault(line.order[0], rank)
    arranged = sorted(chosen, key=lambda line: (_section(line), first_rank[line.order[0]], line.order))
    outdated = _outdated(arranged, query)
    texts = [_written(line, zone, outdated=line in outdated) for line in arranged]
    return RecallBlock(recall_block_text(texts), tuple(arranged))


def _positions_before(found: Sequence[FoundPassage]) -> list[Position]:
    return [memory.position - 1 for memory in found if memory.kind == "turn"]


def _passage_line(memory: FoundPassage) -> RecalledLine:
    text = memory.text
    if memory.kind == "note":
        label = f"note {memory.id}"
    else:
        # A message of a group chat already begins with its author's name.
        label = "" if without_author(memory.speaker, text) != text else memory.speaker
    order = memory.position >> 32, memory.position
    return RecalledLine(label, text, memory.created, order, passage_id=memory.id)


def _without_repetitions(lines: Sequence[RecalledLine]) -> list[RecalledLine]:
    """Each statement once: at the rank of its best match, in its longest wording, of which the newest."""
    kept: list[tuple[str, RecalledLine]] = []
    for line in lines:
        words = line.words
        at = next((at for at, (known, _) in enumerate(kept) if _repeats(words, known)), None)
        if at is None:
            kept.append((words, line))
        elif (len(words), line.created) > (len(kept[at][0]), kept[at][1].created):
            kept[at] = words, line
            # The longer wording may also repeat others.
            kept[at + 1 :] = [each for each in kept[at + 1 :] if not _repeats(each[0], words)]
    return [line for _, line in kept]


def _repeats(one: str, other: str) -> bool:
    shorter, longer = (one, other) if len(one) <= len(other) else (other, one)
    return shorter in longer and (one == other or len(shorter.split()) >= MIN_CONTAINED_WORDS)


def _within(lines: Sequence[RecalledLine], tokens: int, zone: tzinfo | None) -> list[RecalledLine]:
    chosen = []
    for line in lines:
        # Every line is counted with the longest mark, so that a mark never exceeds the budget.
        cost = estimated_tokens("\n" + _written(line, zone, outdated=True))
        if cost <= tokens:
            chosen.append(line)
            tokens -= cost
    return chosen


def _section(line: RecalledLine) -> int:
    if line.passage_id is None:
        return 1
    return 0 if line.label.startswith("note ") else 2


def _outdated(lines: Sequence[RecalledLine], query: str) -> set[RecalledLine]:
    """The lines that claim something of which a newer line claims the opposite or another value.

    Only sentences about what was asked count, since each costs time before the turn.
    """
    asked = {word[:BEGINNING] for word in query_words(query)}
    claimed = [(line, frame, value) for line in lines for frame, value in _claims(line, asked)]
    return {
        older
        for older, frame, value in claimed
        for newer, other, rival in claimed
        if frame == other and newer.created > older.created and exclude_each_other(frame, value, rival)
    }


def _claims(line: RecalledLine, asked: set[str]) -> Iterator[tuple[str, str]]:
    """The claims of a line. "I" in the words of one speaker is somebody else in those of another."""
    speaker = "user" if line.passage_id is None or line.label.startswith("note ") else line.label
    text = line.text
    if not speaker:
        author, _, text = line.text.partition(": ")
        speaker = author.lower()
    if speaker == ASSISTANT:
        return
    for sentence in sentences(text):
        if any(word[:BEGINNING] in asked for word in WORD.findall(sentence.casefold())):
            for claim in claims_of(sentence):
                yield f"{claim.frame}|{speaker}", claim.value


def _written(line: RecalledLine, zone: tzinfo | None, *, outdated: bool) -> str:
    when = local_time(line.created, zone)
    text = one_line(line.text, MAX_LINE_LENGTH)
    said = f"{line.label}: {text}" if line.label else text
    return f"- [{when.day} {when:%B %Y, %H:%M}{OUTDATED if outdated else ''}] {said}"
