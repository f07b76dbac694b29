"""Extracts facts from the messages of a user by rules, without a model. Pure functions.

A sentence is kept when it states something lasting: what the user asks to remember, says about themselves or
has decided, or what somebody or something is, has, likes or uses. It is rewritten to be clear without its
context: "I live in Oslo" becomes "The user lives in Oslo".
"""

import re

from holdfast.providers.holographic.facts import Statement
from holdfast.providers.holographic.secret_patterns import looks_secret
from holdfast.providers.holographic.third_person import in_third_person
from holdfast.providers.holographic.tokens import normalise, sentences
from holdfast.providers.local.passages import USER, author_of, without_author

MAX_PER_TEXT = 40
MIN_WORDS = 3
MAX_LENGTH = 400
CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
QUOTED_LINE = re.compile(r"^\s*(?:>|\|).*$", re.MULTILINE)
LOOKS_LIKE_CODE = re.compile(r"[{}<>]|=>|==|\);|^\s*(?:\$|>>>|import |def |Traceback)|\w\(\w*\)")
REMEMBER = re.compile(
    r"^(?:please |also |and )*(?:remember|note|keep in mind|don't forget|do not forget|for the record|fyi"
    r"|save|memorize|memorise)(?: (?:that|this|the following|for later))?[,:]? (?=\S)",
    re.IGNORECASE,
)
GREETING = re.compile(
    r"^(?:(?:hi|hey|hello|thanks|thank you|ok|okay|yes|yeah|no|well|so|oh|wow|actually|also|and|but|btw"
    r"|by the way)(?: there)?[,!.:]? )+",
    re.IGNORECASE,
)
# About the current moment, not lasting.
PASSING = re.compile(
    r"\bI(?:'m| am) (?:trying|getting|seeing|looking|wondering|asking|sorry|not sure|unsure|going to ask"
    r"|afraid|glad you|happy to|off to)"
    r"|\bI(?:'d| would) (?:like|love|want) (?:you|to (?:know|ask|see))"
    r"|\bI (?:want|need) (?:you|help|to (?:know|ask))"
    r"|\bI have (?:a|another|some|one) questions?\b"
    r"|\bI (?:think|guess|mean|see|hope|wonder|wish|suppose|bet)\b"
    r"|\b(?:can|could|would|will) you\b|\bplease\b|\blet me know\b"
    r"|\bI don't (?:know|understand|see|get|think)\b",
    re.IGNORECASE,
)
IMPERATIVE = re.compile(
    r"^(?:write|make|show|tell|give|explain|help|fix|add|remove|create|find|list|run|check|look|try|let|use"
    r"|do|go|stop|open|read|send|put|set|change|update|delete|build|test|translate|summari[sz]e|suggest"
    r"|describe|compare|generate|convert|refactor|implement|keep|what|why|how|when|where|who|which|is|are"
    r"|does|did|can|could|would|should|shall|will|have you|do you)\b",
    re.IGNORECASE,
)
LASTING = (
    r"am|is|are|was|were|has|have|had|live[sd]?|works?|worked|likes?|loves?|enjoys?|hates?|dislikes?"
    r"|prefers?|uses?|owns?|speaks?|stud(?:y|ies|ied)|plays?|drives?|eats?|drinks?|wakes?|sleeps?|runs?"
    r"|moved|grew|born|decided|agreed|chose|switched|plans?|planned|started|stopped|quit|bought|sold|named"
    r"|calls?|called|needs?|wants?|knows?|learn(?:s|ed|t)?|teach(?:es)?|taught|married|joined|left|became"
    r"|costs?|weighs?|lasts?|starts?|ends?|opens?|closes?|listens?|belongs?|depends?|requires?|supports?"
    r"|contains?|keeps?|takes?|makes?|goes|went|visited|travel(?:s|led|ed)?|met|got|won|lost|adopted|signed"
    r"|volunteers?|collects?|paints?|painted|reads?|writes?|wrote|cooks?|bakes?|grows?|raises?|follows?"
    r"|avoids?|believes?|ran|made|saw|found|built|created|cannot|can't|can|never|always|usually|don't"
    r"|doesn't|isn't|aren't|haven't|hasn't|will"
)
ABOUT_SELF = re.compile(
    r"\b(?:I|we)\b(?:'m|'ve|'re|'ll"
    rf"| (?:\w+ly |also |still |just |now |never |always |often )*(?:{LASTING})\b)"
    r"|\b(?:my|our)\b .*"
    r"\b(?:is|are|was|were|has|have|'s|likes?|loves?|lives?|works?|uses?|runs?|called|named)\b"
    r"|\bcall me \w+",
    re.IGNORECASE,
)
ABOUT_OTHERS = re.compile(
    r"^(?:[Tt]he [\w-]+(?: [\w-]+){0,3}?|[^\W\d_a-z][\w'.-]*(?: [\w'.-]+){0,3}?)(?:'s [\w -]+?)?"
    rf" (?:\w+ly )?(?:{LASTING})\b"
)
# Without the context it is unclear whom or what these words mean.
VAGUE = re.compile(
    r"^(?:it|that|this|these|those|they|he|she|there|you|your|their|such|what|here|everything|something)\b"
    r"|\b(?:you|your|yours|yourself)\b",
    re.IGNORECASE,
)
PREFERENCE = re.compile(
    r"\b(?:prefer|like|love|enjoy|hate|dislike|favou?rite|allergic|vegetarian|vegan|always|never"
    r"|can't stand)",
    re.IGNORECASE,
)
PROJECT = re.compile(
    r"\b(?:project|repo(?:sitory)?|deploy|deadline|release|sprint|branch|database|server"
    r"|we (?:decided|agreed|use|chose|switched))",
    re.IGNORECASE,
)


def statements_in(text: str) -> list[Statement]:
    """The facts in one message of a user."""
    speaker = author_of(text)
    said = without_author(speaker, text) if speaker != USER else text
    name = None if speaker == USER else text[: len(speaker)]
    found = (_statement(sentence, name) for sentence in sentences(_prose(said)))
    kept = {each.content: each for each in found if each is not None}
    return list(kept.values())[:MAX_PER_TEXT]


def category_of(text: str) -> str:
    """The probable category of a fact."""
    if PREFERENCE.search(text):
        return "user_pref"
    return "project" if PROJECT.search(text) else "general"


def _prose(text: str) -> str:
    return QUOTED_LINE.sub(" ", CODE.sub(" ", text))


def _statement(sentence: str, name: str | None) -> Statement | None:
    said = GREETING.sub("", normalise(sentence))
    told = REMEMBER.sub("", said)
    asked_for = told != said
    if looks_secret(said) or not _sized(told) or (not asked_for and not _lasts(told)):
        return None
    content = in_third_person(told, name)
    return Statement(content, category_of(told), entities=(name,) if name else ())


def _sized(text: str) -> bool:
    return len(text) <= MAX_LENGTH and len(text.split()) >= MIN_WORDS


def _lasts(text: str) -> bool:
    if text.endswith("?") or LOOKS_LIKE_CODE.search(text) or IMPERATIVE.match(text) or PASSING.search(text):
        return False
    if ABOUT_SELF.search(text):
        return True
    return ABOUT_OTHERS.match(text) is not None and not VAGUE.search(text)
