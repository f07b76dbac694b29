"""The WordPiece tokenizer of BERT's uncased models, which the embedding model needs.

The vocabulary beside this file is that of bert-base-uncased (Apache-2.0), which all-MiniLM-L6-v2 uses.
"""

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

UNKNOWN, BEGIN, END = "[UNK]", "[CLS]", "[SEP]"
MAX_CHARACTERS = 100
"""Characters of a text that are read for each wanted id; the rest of a longer text is not read."""


@cache
def vocabulary() -> dict[str, int]:
    """Each piece and its id: the number of its line."""
    source = files("holdfast.providers.local").joinpath("vocabulary.txt")
    return {piece: number for number, piece in enumerate(source.read_text(encoding="utf-8").split("\n"))}


@cache
def tokenizer() -> "Tokenizer":
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    # The marks are not made known to it: in a text they are words like others.
    made = Tokenizer(models.WordPiece(vocabulary(), unk_token=UNKNOWN, max_input_chars_per_word=100))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return made


def token_ids(text: str, limit: int) -> list[int]:
    """The ids of a text, between start and end tokens; at most `limit` in total."""
    # A lone surrogate has no UTF-8, in which the library reads.
    readable = text[: limit * MAX_CHARACTERS].encode("utf-8", "ignore").decode()
    pieces = vocabulary()
    return [pieces[BEGIN], *tokenizer().encode(readable).ids[: limit - 2], pieces[END]]
