"""Attributes with one value at a time: where somebody lives, a favourite colour, a port. Pure functions.

"Ann likes tea" and "Ann likes milk" are both true; "Ann lives in Rome" and "Ann lives in Oslo" hardly are. So
only the attributes listed here, and those with a number or a day as value, exclude other values.
"""

import re
from dataclasses import dataclass

from holdfast.providers.holographic.tokens import stem_of
from holdfast.providers.local.words import STOP_WORDS

MAX_VALUE_WORDS = 6
MAX_ATTRIBUTE_WORDS = 4
# A value ends where another clause begins.
CLAUSE = re.compile(
    r" (?:since|because|with|but|until|while|when|where|which|who|and|for|as|so|though|if|by) "
)
VERBS = (
    ("age", r"(?:is|are|am|turned)(?= \d+ (?:years? old|$))|is aged"),
    (
        "home",
        (
            r"(?:(?:is|are|am) )?(?:live|lives|living|reside|resides|residing|based|located) (?:in|at|near)"
            r"|(?:has |have )?(?:moved|relocated|moving) (?:in)?to"
        ),
    ),
    ("employer", r"(?:(?:is|are|am) )?(?:work|works|working|employed) (?:at|for|by)"),
    ("job", r"(?:(?:is|are|am) )?(?:work|works|working|employed) as"),
    ("origin", r"(?:is|are|am|comes?) from|grew up in"),
    ("birth", r"(?:is |was )?born on|(?:is |was )?born in(?= \d)"),
    ("birthplace", r"(?:is |was )?born in(?! \d)"),
    ("spouse", r"(?:(?:is|are|am) )?(?:married|engaged) to"),
    ("name", r"(?:is|are|am) (?:called|named)|goes by"),
    ("language", r"(?:is|are) (?:written|implemented|coded) in"),
    ("host", r"(?:is|are) (?:hosted|deployed|running|stored|kept) (?:on|in|at)|(?:run|runs) on"),
    ("port", r"(?:listens?|listening|is listening) on(?: port)?"),
    ("due", r"(?:is|are) (?:due|scheduled|planned)(?: (?:on|for|in|at|by))?"),
    ("start", r"(?:starts?|begins?|opens?) (?:on|at|in)"),
    ("end", r"(?:ends?|finishes|closes?) (?:on|at|in)"),
    ("cost", r"costs?"),
    ("weight", r"weighs?"),
)
RULES = tuple(
    (attribute, re.compile(rf"(?P<subject>[^|]+?) (?:{verb}) (?P<value>.+)")) for attribute, verb in VERBS
)
# Whether any of the rules can match: one look instead of one for each rule.
ANY_VERB = re.compile(rf" (?:{'|'.join(verb for _, verb in VERBS)}) ")
POSSESSIVE = re.compile(r"(?P<subject>.+?) 's (?P<attribute>.+?) (?:is|are) (?P<value>.+)")
OF = re.compile(r"(?P<attribute>.+?) of (?P<subject>.+?) (?:is|are) (?P<value>.+)")
BARE = re.compile(r"(?P<attribute>.+?) (?:is|are) (?:set to )?(?P<value>.+)")
USES_FOR = re.compile(r"(?P<subject>.+?) (?:use|uses|using) (?P<value>.+?) (?:for|as) (?P<attribute>.+)")
PREFERS = re.compile(
    r"(?P<subject>.+?) (?:prefer|prefers) (?P<one>.+?) (?:over|to|rather than|instead of) (?P<other>.+)"
)
SINGLE = frozenset(
    """name birthday birthdate birthplace age email mail phone number address job title editor language zone
    timezone wife husband partner spouse boss manager doctor dentist hometown city country employer colour
    color size height weight port version deadline budget price cost capital salary rent currency branch
    database host hostname url domain password username nickname surname school university major team role
    rank location nationality religion os shell framework licence license status date
    time""".split()  # noqa: SIM905
)
DISTINCT = frozenset({"favourite", "favorite", "preferred", "default", "main", "primary", "current", "best"})
MARKS = re.compile(r"\d|^(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday)$")


@dataclass(frozen=True, slots=True)
class Slot:
    subject: str
    attribute: str
    value: str


def slot_of(tokens: list[str]) -> Slot | None:
    """The subject, attribute and value of a sentence, if the attribute has one value at a time."""
    text = " ".join(tokens)
    prefers = PREFERS.fullmatch(text)
    if prefers:
        return _preference(prefers["subject"], prefers["one"], prefers["other"])
    uses = USES_FOR.fullmatch(text)
    if uses:
        return _slot(uses["subject"], f"uses for {uses['attribute']}", uses["value"])
    for attribute, pattern in RULES if ANY_VERB.search(text) else ():
        found = pattern.fullmatch(text)
        if found:
            return _slot(found["subject"], attribute, found["value"])
    return _copula(text)


def _copula(text: str) -> Slot | None:
    for pattern in (POSSESSIVE, OF, BARE):
        found = pattern.fullmatch(text)
        if found is None:
            continue
        attribute = found["attribute"].split()
        value = found["value"].split()
        single = attribute[-1] in SINGLE or not DISTINCT.isdisjoint(attribute) or MARKS.search(value[0])
        if not single or len(attribute) > MAX_ATTRIBUTE_WORDS:
            return None
        subject = found["subject"] if "subject" in found.groupdict() else ""
        return _slot(subject, found["attribute"], found["value"])
    return None


def _preference(subject: str, one: str, other: str) -> Slot | None:
    both = sorted((_stemmed(one), _stemmed(other)))
    return _slot(subject, f"prefers {' or '.join(both)}", one)


def _slot(subject: str, attribute: str, value: str) -> Slot | None:
    stemmed_value = _stemmed(CLAUSE.split(f" {value} ")[0])
    if not stemmed_value or len(stemmed_value.split()) > MAX_VALUE_WORDS:
        return None
    return Slot(_stemmed(subject), _stemmed(attribute), stemmed_value)


def _stemmed(text: str) -> str:
    return " ".join(stem_of(word) for word in text.split() if word != "'s" and word not in STOP_WORDS)
