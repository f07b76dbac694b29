"""WordPiece, as BERT's uncased models cut text: the ids that the embedding model reads.

The vocabulary beside this file is that of bert-base-uncased (Apache-2.0), which all-MiniLM-L6-v2 uses.
The `tokenizers` library does the same, but brings a downloader and a dozen packages along.
"""

import unicodedata
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

UNKNOWN, BEGIN, END = "[UNK]", "[CLS]", "[SEP]"
LONGEST_WORD = 100
# Scripts whose characters are words by themselves here, as in the model's training.
IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
ASCII_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


@cache
def vocabulary() -> dict[str, int]:
    """Each piece and its id: the number of its line."""
    source = files("holdfast.memory.providers.local").joinpath("vocabulary.txt")
    return {piece: number for number, piece in enumerate(source.read_text(encoding="utf-8").split("\n"))}


def token_ids(text: str, limit: int) -> list[int]:
    """The ids of a text, between the marks of its begin and end; at most `limit` in all."""
    pieces = vocabulary()
    ids = [pieces[BEGIN]]
    for word in words(text):
        ids.extend(word_ids(word, pieces))
        if len(ids) >= limit - 1:
            break
    return [*ids[: limit - 1], pieces[END]]


def words(text: str) -> Iterator[str]:
    """Lower case without accents; punctuation and ideographs stand alone."""
    plain = unicodedata.normalize("NFD", _spaced(text).lower())
    for chunk in plain.split():
        word = ""
        for char in chunk:
            if unicodedata.category(char) == "Mn":
                continue
            if _stands_alone(char):
                if word:
                    yield word
                yield char
                word = ""
            else:
                word += char
        if word:
            yield word


def word_ids(word: str, pieces: dict[str, int]) -> list[int]:
    """The longest known beginning, again and again; one unknown mark when a rest is not known."""
    if len(word) > LONGEST_WORD:
        return [pieces[UNKNOWN]]
    ids, start = [], 0
    while start < len(word):
        prefix = "##" if start else ""
        for end in range(len(word), start, -1):
            found = pieces.get(prefix + word[start:end])
            if found is not None:
                ids.append(found)
                start = end
                break
        else:
            return [pieces[UNKNOWN]]
    return ids


def _spaced(text: str) -> str:
    """Without control characters, and every kind of space a plain one."""
    return "".join(
        " " if char.isspace() else char
        for char in text
        if char in "\t\n\r" or (unicodedata.category(char)[0] != "C" and char != "\ufffd")
    )


def _stands_alone(char: str) -> bool:
    if char in ASCII_PUNCTUATION or unicodedata.category(char).startswith("P"):
        return True
    return any(first <= ord(char) <= last for first, last in IDEOGRAPHS)
