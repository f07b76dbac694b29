"""A fact's text as words, stems and keys: what is compared, hashed and bound. Pure functions."""

import hashlib
import re
import unicodedata

from holdfast.memory.providers.holographic.stemming import stem
from holdfast.memory.providers.local.passages import UNSPACED, unspaced
from holdfast.memory.providers.local.words import STOP_WORDS

WORD = re.compile(r"\d+(?:[.,:/-]\d+)+|[^\W_]+(?:['\u2019][^\W_]+)*", re.UNICODE)
SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|\n+|(?<=[。！？；])")  # noqa: RUF001 - the marks of other scripts
PRONOUNS = {"he": "is", "she": "is", "it": "is", "that": "is", "there": "is", "who": "is", "what": "is"}
SHORTENED = {"m": "am", "re": "are", "ve": "have", "ll": "will", "d": "would"}
WHOLE = {
    "can't": ("can", "not"),
    "cannot": ("can", "not"),
    "won't": ("will", "not"),
    "shan't": ("will", "not"),
}
ARTICLES = frozenset({"a", "an", "the"})
USER = "user"
FIRST_PERSON = {"i": (USER,), "me": (USER,), "my": (USER, "'s"), "mine": (USER, "'s"), "myself": (USER,)}


def normal(text: str) -> str:
    """One form for texts that only look different: compatibility forms, quotes, spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).replace("\u2019", "'").split())


def words(text: str) -> list[str]:
    """The words in lower case, short forms written out; a possessive is a word of its own."""
    found: list[str] = []
    for word in WORD.findall(normal(text).casefold()):
        if "'" in word or word in WHOLE:
            found.extend(_written_out(word))
        else:
            found.append(word)
    return found


def _written_out(word: str) -> tuple[str, ...]:
    if word in WHOLE:
        return WHOLE[word]
    if word.endswith("n't"):
        return word[:-3], "not"
    head, _, tail = word.partition("'")
    if tail == "s":
        return (head, PRONOUNS[head]) if head in PRONOUNS else (head, "'s")
    return (head, SHORTENED[tail]) if tail in SHORTENED else (word.replace("'", ""),)


def about_user(tokens: list[str]) -> list[str]:
    """The same with "I" and "my" as what they mean: the user."""
    return [each for token in tokens for each in FIRST_PERSON.get(token, (token,))]


def plain(token: str) -> str:
    """A word without the marks on its letters, stemmed: as the index has it."""
    if token.isascii():
        return stem(token)
    bare = "".join(char for char in unicodedata.normalize("NFKD", token) if not unicodedata.combining(char))
    return stem(unicodedata.normalize("NFC", bare))


def stems(text: str) -> list[str]:
    """The stems that tell texts apart, in order; runs without spaces as pairs of letters."""
    told = [plain(word) for word in words(UNSPACED.sub(" ", text)) if word not in STOP_WORDS and word != "'s"]
    return [*told, *unspaced(text).split()]


def sentences(text: str) -> list[str]:
    return [each.strip() for each in SENTENCE_END.split(text) if each.strip()]


def content_key(text: str) -> str:
    """The same for a text however it is spaced, cased and ended. A hash, so it tells nothing."""
    return _hashed(normal(text).casefold().rstrip(".!。 "))


def likeness_key(text: str) -> str:
    """The same for sentences that differ in articles, endings and "I" for the user."""
    kept = [plain(word) for word in about_user(words(text)) if word not in ARTICLES]
    return _hashed(" ".join(kept) or normal(text))


def name_key(name: str) -> str:
    """The same for a name however it is cased and with or without its article."""
    told = [word for word in words(name) if word != "'s"]
    told = told[1:] if len(told) > 1 and told[0] in ARTICLES else told
    key = " ".join(told) or normal(name).casefold()
    return USER if key in FIRST_PERSON else key


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]
