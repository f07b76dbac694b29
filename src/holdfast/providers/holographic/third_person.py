"""Rewrites sentences in the first person: "I don't smoke" becomes "The user doesn't smoke"."""

import re

THE_USER = "the user"
# Irregular verbs and short forms after "I", with their third person.
IRREGULAR = {
    "am": "is",
    "'m": " is",
    "have": "has",
    "'ve": " has",
    "do": "does",
    "don't": "doesn't",
    "haven't": "hasn't",
    "go": "goes",
    "'ll": " will",
    "'d": " would",
}
ADVERBS = frozenset(
    """never always often usually just also still really sometimes only already now recently currently almost
    hardly rarely actually definitely probably totally then even both""".split()  # noqa: SIM905
)
SAME = frozenset(
    """was had did could can cannot can't couldn't will won't would wouldn't should shouldn't must may might
    used went got made bought sold met won lost left became began ran came saw took gave found felt told said
    thought knew grew wrote taught caught brought built kept slept spent sent paid put cut set quit let hurt
    drove rode ate drank swam sang flew broke chose spoke woke wore not didn't wasn't
    hadn't""".split()  # noqa: SIM905
)
FIRST = re.compile(r"\bI\b(?P<short>'(?:m|ve|ll|d))?(?P<rest>(?: (?!I\b)[\w']+){0,3})")
OWN = re.compile(r"\b(?P<word>[Mm]y(?:self)?|[Mm]ine|[Mm]e)\b(?!-)")


def in_third_person(sentence: str, name: str | None = None) -> str:
    """The sentence in the third person, without its final full stop."""
    who = name or THE_USER
    said = FIRST.sub(lambda found: _rewritten(found, who), sentence)
    said = OWN.sub(lambda found: who if found["word"].lower() in {"me", "myself"} else f"{who}'s", said)
    return (said[:1].upper() + said[1:]).rstrip(".! ") or sentence


def _rewritten(found: re.Match[str], who: str) -> str:
    words = found["rest"].split()
    if found["short"]:
        return f"{who}{IRREGULAR[found['short']]}{found['rest']}"
    for at, word in enumerate(words):
        if word.lower() in ADVERBS:
            continue
        words[at] = _for_third_person(word)
        break
    return " ".join([who, *words])


def _for_third_person(verb: str) -> str:
    plain = verb.lower()
    if plain in IRREGULAR:
        return IRREGULAR[plain]
    if plain in SAME or plain.endswith("ed") or not plain.isalpha():
        return verb
    if plain.endswith(("s", "x", "z", "ch", "sh")):
        return f"{verb}es"
    if plain.endswith("y") and plain[-2:-1] not in "aeiou":
        return f"{verb[:-1]}ies"
    return f"{verb}s"
