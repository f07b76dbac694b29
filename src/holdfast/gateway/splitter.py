"""Cut a Markdown text into parts that each fit into one message, in one place for every platform.

A part ends, if it can, between two blocks, else between lines, sentences, words, characters. A code fence
that is cut is closed and opened again with its language; a table that is cut has its header again. Nothing of
the content is lost or doubled. `markdown_blocks.py` knows where fences and tables may be cut.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import islice

from holdfast.gateway.markdown_blocks import Block, FenceBlock, TableBlock, TextBlock, blocks_of

MARKS_SHARE = 2
"""A fence's marks or a table's header may take one in so many of a part; else they are left out."""
TRIES = 8
"""How many spaces are tried for a cut between words."""
CLUSTER = 32
"""How many characters of one visible sign are kept together."""
LINE_MARK = re.compile(r"\s*(?:#{1,6}\s|[-+*]\s|>|\d{1,9}[.)]\s)")
"""What means something else at the start of a line."""
ITEM = re.compile(r"\n(?=[ \t]*(?:[-+*]|\d{1,9}[.)]|#{1,6})[ \t])")
ITEM_MARK = 20
"""How far the mark of an item is looked for."""
SENTENCE_END = re.compile(r"[.!?\u2026][\"'\u201d\u2019)\]*_`]*\s+|[\u3002\uff01\uff1f]")
JOINER, BACKSLASH = "\u200d", "\\"


def split(markdown: str, measure: Callable[[str], int], most: int) -> list[str]:
    """The parts of a text, each of at most this size; none for a text of spaces alone.

    `measure` says how large a text is on the platform. `ValueError` when not even one character fits.
    """
    return list(_parts(markdown, measure, most))


def first_part(markdown: str, measure: Callable[[str], int], most: int) -> str:
    """The first part of a text; the rest is not cut. Empty for a text of spaces alone."""
    return next(_parts(markdown, measure, most), "")


def _parts(markdown: str, measure: Callable[[str], int], most: int) -> Iterator[str]:
    return _Splitter(markdown.replace("\r\n", "\n").replace("\r", "\n"), measure, most).parts()


class _Splitter:
    def __init__(self, source: str, measure: Callable[[str], int], most: int) -> None:
        self._source = source
        self._measure = measure
        self._most = most
        self._blocks = [self._affordable(each) for each in blocks_of(source)]
        self._starts = [each.start for each in self._blocks]
        self._span = most
        """How many characters the last part had: where the search for the next cut begins."""

    def parts(self) -> Iterator[str]:
        position = self._resume(0)
        while position < len(self._source):
            cut = self._cut_after(position)
            part = self._render(position, cut)
            if part:
                yield part
            self._span = max(cut - position, 1)
            position = self._resume(cut)

    def _affordable(self, block: Block) -> Block:
        """The block without marks that would take up most of every part."""
        if isinstance(block, TableBlock):
            header = block.source[block.start : block.header]
            return block if self._measure(header) * MARKS_SHARE <= self._most else _as_text(block)
        if isinstance(block, FenceBlock):
            while block.style != "plain" and self._measure(_marks_of(block)) * MARKS_SHARE > self._most:
                block.simplify()
        return block

    def _index(self, position: int) -> int:
        return bisect_right(self._starts, position) - 1

    def _resume(self, position: int) -> int:
        """Where the next part begins: past what stands between blocks."""
        while position < len(self._source):
            block = self._blocks[self._index(position)]
            next_position = block.resume(position) if position > block.start or _is_text(block) else position
            if next_position == position:
                break
            position = next_position
        return position

    def _render(self, start: int, end: int) -> str:
        first, last = self._index(start), self._index(end - 1)
        pieces = [
            each.render(max(start, each.start), min(end, each.end)) for each in self._blocks[first : last + 1]
        ]
        if _is_text(self._blocks[last]):
            pieces[-1] = pieces[-1].rstrip()
        return "".join(pieces).rstrip("\n")

    def _fits(self, start: int, end: int) -> bool:
        return self._measure(self._render(start, end)) <= self._most

    def _cut_after(self, start: int) -> int:
        first = self._smallest(start)
        cut = self._largest(start, first)
        if cut >= len(self._source):
            return cut
        return next((each for each in self._better_cuts(start, cut) if self._fits(start, each)), cut)

    def _smallest(self, start: int) -> int:
        """The nearest cut. A block of which nothing fits gives up its marks."""
        number = self._index(start)
        while True:
            block = self._blocks[number]
            cut = block.first_cut(start)
            if self._fits(start, cut):
                return cut
            if isinstance(block, TableBlock):
                self._blocks[number] = _as_text(block)
            elif not block.simplify():
                raise ValueError(f"not one character fits into a message of {self._most}")

    def _largest(self, start: int, first: int) -> int:
        """The last cut before which everything fits, by doubling and halving the distance."""
        best, bad, reach = first, 0, self._span
        while not bad:
            cut = max(self._cut_at(start + reach), first)
            if not self._fits(start, cut):
                bad = start + reach
            elif start + reach >= len(self._source):
                return cut
            else:
                best, reach = max(best, cut), reach * 2
        low = best
        while bad - low > 1:
            middle = (low + bad) // 2
            cut = max(self._cut_at(middle), first)
            if cut <= best or self._fits(start, cut):
                low, best = middle, max(best, cut)
            else:
                bad = middle
        return best

    def _cut_at(self, position: int) -> int:
        position = min(position, len(self._source))
        return self._blocks[self._index(position - 1)].cut_at(position)

    def _better_cuts(self, start: int, cut: int) -> Iterator[int]:
        """Cuts at or before this one that read better, the best first."""
        third, half = start + (cut - start) // 3, start + (cut - start) // 2
        block = self._blocks[self._index(cut - 1)]
        if cut == block.end:
            yield cut
        if block.start > third:
            yield block.start
        if isinstance(block, FenceBlock):
            yield from self._code_cuts(max(start, block.body[0]), max(half, block.body[0]), cut)
        elif isinstance(block, TextBlock):
            start = max(start, block.start)
            yield from self._line_cuts(max(start, third), max(start, half), cut)
            yield from self._word_cuts(start, max(start, half), cut)

    def _code_cuts(self, start: int, half: int, cut: int) -> Iterator[int]:
        if self._source[cut] == "\n":
            yield cut
        for space in "\n ":
            found = self._source.rfind(space, half, cut) + 1
            if found > start:
                yield found

    def _line_cuts(self, third: int, half: int, cut: int) -> Iterator[int]:
        """Between paragraphs, before an item of a list or a heading, between lines."""
        paragraph = self._source.rfind("\n\n", third, cut + 2)
        if paragraph > third:
            line = self._source.rfind("\n", third, paragraph)
            if line > third and self._source.startswith("#", line + 1):
                yield line  # a heading stays with what it is the heading of
            yield paragraph
        items = [each.start() for each in ITEM.finditer(self._source, half, cut + ITEM_MARK)]
        yield from [each for each in items if half < each <= cut][-1:]
        line = self._source.rfind("\n", half, cut + 1)
        if line > half:
            yield line

    def _word_cuts(self, start: int, half: int, cut: int) -> Iterator[int]:
        """Between sentences, between words, between characters."""
        sentences = [each.end() for each in SENTENCE_END.finditer(self._source, half, cut + 1)]
        yield from [each for each in sentences if half < each <= cut and self._reads_same(each)][-1:]
        spaces = (each for each in range(cut, start, -1) if self._source[each].isspace())
        words = list(islice(spaces, TRIES))
        yield from [each for each in words if self._reads_same(each)]
        yield from words
        for back in range(min(CLUSTER, cut - start - 1)):
            if not self._is_inside_a_sign(cut - back):
                yield cut - back
                return

    def _reads_same(self, position: int) -> bool:
        """Whether what follows means the same at the start of a line."""
        return LINE_MARK.match(self._source, position, position + ITEM_MARK) is None

    def _is_inside_a_sign(self, position: int) -> bool:
        before, after = self._source[position - 1], self._source[position]
        return (
            before in (JOINER, BACKSLASH)
            or after == JOINER
            or bool(unicodedata.combining(after))
            or unicodedata.category(after) in ("Mn", "Me")
        )


def _is_text(block: Block) -> bool:
    return isinstance(block, TextBlock)


def _as_text(block: TableBlock) -> TextBlock:
    return TextBlock(block.source, block.start, block.end)


def _marks_of(block: FenceBlock) -> str:
    return f"{block.marks}{block.info if block.style == 'full' else ''}\n\n{block.marks}"
