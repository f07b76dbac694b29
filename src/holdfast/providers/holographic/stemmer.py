"""The Porter stemmer as in FTS5's `porter`: "painted" and "painting" have one stem. Pure functions."""

from functools import lru_cache
from string import ascii_lowercase

VOWEL, CONSONANT, EITHER = "v", "c", "y"
KINDS = str.maketrans(
    {each: VOWEL if each in "aeiou" else CONSONANT for each in ascii_lowercase if each != EITHER}
)
MIN_LENGTH = 3

# Each ending and its replacement, for words whose rest has a high enough measure.
STEP_2 = {
    "ational": "ate",
    "tional": "tion",
    "enci": "ence",
    "anci": "ance",
    "izer": "ize",
    "logi": "log",
    "bli": "ble",
    "alli": "al",
    "entli": "ent",
    "eli": "e",
    "ousli": "ous",
    "ization": "ize",
    "ation": "ate",
    "ator": "ate",
    "alism": "al",
    "iveness": "ive",
    "fulness": "ful",
    "ousness": "ous",
    "aliti": "al",
    "iviti": "ive",
    "biliti": "ble",
}
STEP_3 = {
    "icate": "ic",
    "ative": "",
    "alize": "al",
    "iciti": "ic",
    "ical": "ic",
    "ful": "",
    "ness": "",
}
STEP_4 = (
    "ement",
    "ance",
    "ence",
    "able",
    "ible",
    "ment",
    "ant",
    "ent",
    "ion",
    "ism",
    "ate",
    "iti",
    "ous",
    "ive",
    "ize",
    "al",
    "er",
    "ic",
    "ou",
)


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """The stem of a lower-case word; a word with other letters than a to z is not changed."""
    if len(word) < MIN_LENGTH or not (word.isascii() and word.isalpha()):
        return word
    word = _without_plural(word)
    word = _without_past(word)
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    word = _replaced(word, STEP_2)
    word = _replaced(word, STEP_3)
    word = _without_suffix(word)
    return _tidied(word)


def _kinds(word: str) -> str:
    """For each letter whether it is a vowel; "y" is one after a consonant."""
    kinds = word.translate(KINDS)
    while EITHER in kinds:
        at = kinds.index(EITHER)
        kind = VOWEL if kinds[:at].endswith(CONSONANT) else CONSONANT
        kinds = kinds.replace(EITHER, kind, 1)
    return kinds


def _measure(word: str) -> int:
    """How many times a vowel is followed by a consonant."""
    return _kinds(word).count(VOWEL + CONSONANT)


def _has_vowel(word: str) -> bool:
    return VOWEL in _kinds(word)


def _ends_double(word: str) -> bool:
    return word[-1:] == word[-2:-1] and _kinds(word).endswith(CONSONANT)


def _ends_short(word: str) -> bool:
    """Consonant, vowel, consonant, the last none of w, x and y."""
    return _kinds(word).endswith(CONSONANT + VOWEL + CONSONANT) and not word.endswith(("w", "x", "y"))


def _without_plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _without_past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        rest = word[: -len(ending)]
        if word.endswith(ending) and _has_vowel(rest):
            return _mended(rest)
    return word


def _mended(rest: str) -> str:
    """The rest after removing "ed" or "ing", with its final letter restored."""
    if rest.endswith(("at", "bl", "iz")):
        return rest + "e"
    if _ends_double(rest) and rest[-1] not in "lsz":
        return rest[:-1]
    return rest + "e" if _measure(rest) == 1 and _ends_short(rest) else rest


def _replaced(word: str, endings: dict[str, str]) -> str:
    # Most words have none of the endings, and one call says so.
    if not word.endswith(tuple(endings)):
        return word
    ending = next(each for each in endings if word.endswith(each))
    rest = word[: -len(ending)]
    return rest + endings[ending] if _measure(rest) > 0 else word


def _without_suffix(word: str) -> str:
    if not word.endswith(STEP_4):
        return word
    ending = next(each for each in STEP_4 if word.endswith(each))
    rest = word[: -len(ending)]
    allowed = ending != "ion" or rest.endswith(("s", "t"))
    return rest if allowed and _measure(rest) > 1 else word


def _tidied(word: str) -> str:
    if word.endswith("e"):
        rest = word[:-1]
        measure = _measure(rest)
        if measure > 1 or (measure == 1 and not _ends_short(rest)):
            word = rest
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word
