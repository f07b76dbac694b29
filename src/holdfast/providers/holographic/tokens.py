"""Splits the text of a fact into words and stems, and makes its keys. Pure functions."""

import hashlib
import re
import unicodedata

from holdfast.providers.holographic.stemmer import stem
from holdfast.providers.local.passages import UNSPACED, unspaced
from holdfast.providers.local.words import STOP_WORDS

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


def normalise(text: str) -> str:
    """Normalise compatibility forms, quotes and spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).replace("\u2019", "'").split())


def words(text: str) -> list[str]:
    """The words in lower case, with contractions expanded; the possessive 's is a word of its own."""
    found: list[str] = []
    for word in WORD.findall(normalise(text).casefold()):
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
    """The words with "I" and "my" replaced by the user."""
    return [each for token in tokens for each in FIRST_PERSON.get(token, (token,))]


def stem_of(token: str) -> str:
    """The stem of a word without diacritics, as the index has it."""
    if token.isascii():
        return stem(token)
    bare = "".join(char for char in unicodedata.normalize("NFKD", token) if not unicodedata.combining(char))
    return stem(unicodedata.normalize("NFC", bare))


def stems(text: str) -> list[str]:
    """The stems without stop words, in order; text of scripts without spaces as pairs of letters."""
    kept = [
        stem_of(word) for word in words(UNSPACED.sub(" ", text)) if word not in STOP_WORDS and word != "'s"
    ]
    return [*kept, *unspaced(text).split()]


def sentences(text: str) -> list[str]:
    return [each.strip() for each in SENTENCE_END.split(text) if each.strip()]


def content_key(text: str) -> str:
    """A hash of the text that ignores spaces, case and the final full stop."""
    return _hashed(normalise(text).casefold().rstrip(".!。 "))


def likeness_key(text: str) -> str:
    """A hash of the stems that ignores articles and treats "I" as the user."""
    kept = [stem_of(word) for word in about_user(words(text)) if word not in ARTICLES]
    return _hashed(" ".join(kept) or normalise(text))


def name_key(name: str) -> str:
    """The key of a name; it ignores case and a leading article."""
    kept = [word for word in words(name) if word != "'s"]
    kept = kept[1:] if len(kept) > 1 and kept[0] in ARTICLES else kept
    key = " ".join(kept) or normalise(name).casefold()
    return USER if key in FIRST_PERSON else key


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]
