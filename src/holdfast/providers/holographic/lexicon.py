"""The words that claims need: negations, opposites, numbers, days and months. Data only."""

from holdfast.providers.holographic.stemmer import stem

NEGATIONS = frozenset({"not", "no", "never", "without", "neither", "nor", "none", "hardly", "nolonger"})
STOPPING = frozenset({"stopped", "stop", "stops", "quit", "quits", "ceased", "avoid", "avoids", "refuses"})
# Each line has synonyms, the first one canonical, and after the bar their opposites.
PAIRS = """
like love enjoy adore | dislike hate detest loathe despise
enable activate | disable deactivate
allow permit | forbid forbidden prohibit ban
accept approve | reject refuse decline
agree | disagree
include | exclude
increase raise grow | decrease reduce shrink
win won | lose lost
start begin began | end finish
succeed pass | fail
buy bought | sell sold
trust | distrust
remember | forget forgot forgotten
open | close shut closed
on | off
up | down
light bright | dark
hot warm | cold cool
big large tall huge high long | small little short tiny low
fast quick | slow
easy simple | hard difficult complicated
early | late
cheap inexpensive | expensive costly
married | single unmarried divorced
alive living | dead deceased
true correct right | false wrong incorrect
before | after
public | private
present | absent
safe secure | dangerous insecure
full | empty
old | young new
rich | poor
happy glad | sad
healthy well | sick ill
online | offline
required mandatory obligatory | optional
possible | impossible
valid | invalid
active | inactive
visible | invisible
complete | incomplete
able | unable
available | unavailable
sync synchronous | async asynchronous
mutable | immutable
tabs | spaces
more | less
most | least
first | last
all everyone everything | nobody nothing
vertical | horizontal
indoors | outdoors
employed | unemployed
"""
SMALL_NUMBERS = {
    name: str(value)
    for value, name in enumerate(
        """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
        sixteen seventeen eighteen nineteen twenty""".split()  # noqa: SIM905 - easier to read as prose
    )
} | {
    "thirty": "30",
    "forty": "40",
    "fifty": "50",
    "sixty": "60",
    "seventy": "70",
    "eighty": "80",
    "ninety": "90",
}
_MONTH_NAMES = (
    "january february march april may june july august september october november december".split()  # noqa: SIM905
)
MONTHS = (
    {name: name for name in _MONTH_NAMES}
    | {name[:3]: name for name in _MONTH_NAMES if name != "may"}
    | {"sept": "september"}
)
WEEKDAYS = frozenset("monday tuesday wednesday thursday friday saturday sunday".split())  # noqa: SIM905


def _read(pairs: str) -> dict[str, tuple[str, int]]:
    meaning: dict[str, tuple[str, int]] = {}
    for line in pairs.strip().splitlines():
        same, _, other = line.partition("|")
        head = stem(same.split()[0])
        meaning.update({stem(word): (head, 1) for word in same.split()})
        meaning.update({stem(word): (head, -1) for word in other.split()})
    return meaning


MEANING = _read(PAIRS)
"""A stem's canonical stem, and whether it means that (1) or its opposite (-1)."""
