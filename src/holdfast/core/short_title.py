"""`short_title`: a line that stands for a longer text, as a title does."""

import re

LONGEST = 60
SHORTEST = 8
"""A first sentence that is shorter, such as "Hi!", says nothing about the rest."""
MARKS = " \t#>*-_`~|=+\"'([{"
SENTENCE_END = re.compile(r"[.!?。！？](?:\s|$)")  # noqa: RUF001 - the marks of Chinese and Japanese


def short_title(text: str, longest: int = LONGEST) -> str:
    """The first sentence of a text, without marks of Markdown; cut between words where it is long."""
    lines = (" ".join(line.split()).lstrip(MARKS) for line in text.splitlines())
    line = " ".join(each for each in lines if any(char.isalnum() for char in each))
    for end in SENTENCE_END.finditer(line):
        if SHORTEST <= end.start() <= longest:
            return line[: end.start() + (line[end.start()] not in ".。")]
        if end.start() > longest:
            break
    if len(line) <= longest:
        return line.rstrip(".")
    cut = line[:longest]
    head, space, _ = cut.rpartition(" ")
    # A language without spaces between words is cut where the room ends.
    return f"{(head if space and len(head) >= longest // 2 else cut).rstrip(' ,;:')}…"
