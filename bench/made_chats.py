"""Made-up chats with questions, in the shape of the shared conversations: another kind of data to choose by.

Two kinds. In `assistant` a person tells an assistant about their life between requests, and the assistant
answers at length. In `friends` two people write short messages, often several in a row. A fact is told in one
of several wordings and asked for in another, amid small talk, requests, questions with the same words, and
the same sort of fact about somebody else. The same seed makes the same chats.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

SEVERAL, TIME, INFERENCE, ONE = 1, 2, 3, 4
SESSIONS = 24
BEGUN = datetime(2024, 2, 3, 9, 30, tzinfo=UTC)

Slots = dict[str, str]


@dataclass(frozen=True, slots=True)
class Told:
    """Facts of one sort: how they are told and asked for. With several values, each is told in a session."""

    category: int
    values: tuple[str, ...]
    tellings: tuple[str, ...]
    questions: tuple[str, ...]
    count: int = 1


FIRST_PERSON = {
    "does I ": "do I ",
    "has I ": "have I ",
    "is I ": "am I ",
    "Is I ": "Am I ",
    "Does I ": "Do I ",
}
WHENS = (
    "yesterday",
    "last Friday",
    "two days ago",
    "last weekend",
    "this morning",
    "last week",
    "on Tuesday",
)
FACTS = (
    Told(
        ONE,
        ("a beagle called Biscuit", "a grey cat named Pixel", "a parrot called Mango"),
        ("We finally took in {value} from the shelter.", "I've got {value} at home now, total chaos."),
        ("Which animal does {who} keep?", "What is the name of {whose} pet?"),
    ),
    Told(
        ONE,
        ("Lisbon", "Gothenburg", "Montreal"),
        ("I'm settling down in {value} for good.", "The lease is signed, {value} is my new city."),
        ("Where did {who} move to?", "In what place does {who} live?"),
    ),
    Told(
        ONE,
        ("a nurse", "a tram driver", "a bookbinder"),
        ("They hired me as {value}!", "I earn my bread as {value} these days."),
        ("What is {whose} job?", "What does {who} do for a living?"),
    ),
    Told(
        ONE,
        ("cello", "accordion", "oboe"),
        ("I practise the {value} every evening, the neighbours are patient.", "Took up the {value} again."),
        ("What instrument does {who} play?", "Which musical instrument is {who} learning?"),
    ),
    Told(
        ONE,
        ("teal", "mustard", "burgundy"),
        (
            "I painted the whole kitchen {value}, it's the shade I love most.",
            "If it comes in {value} I buy it.",
        ),
        ("What is {whose} favourite colour?",),
    ),
    Told(
        ONE,
        ("Marta", "Olu", "Henrik"),
        ("My sister {value} had a baby girl.", "My sister {value} is staying over for a while."),
        ("What is {whose} sibling called?", "What's the name of {whose} sister?"),
    ),
    Told(
        ONE,
        ("4,200 euros", "900 dollars", "2,750 pounds"),
        ("The roof repair came to {value}, ouch.", "Paid {value} to have the roof fixed."),
        ("How much did {who} spend on the roof?", "What did the repair of {whose} roof cost?"),
    ),
    Told(
        TIME,
        ("ran the half marathon", "passed the driving test", "broke my wrist", "sold the old boat"),
        ("Guess what, I {value} {when}!", "I {value} {when}. Still can't quite believe it."),
        ("When was it that {who} {value}?", "On what day was it that {who} {value}?"),
        2,
    ),
    Told(
        TIME,
        ("my cousin's wedding", "the pottery fair", "a jazz concert", "the dentist"),
        ("I was at {value} {when}.", "{when} I went to {value}, it took all day."),
        ("When did {who} go to {value}?", "What date was {value}, where {who} went?"),
        2,
    ),
    Told(
        SEVERAL,
        ("Dune", "Middlemarch", "The Overstory", "Circe", "Persuasion", "Beloved"),
        (
            "Just finished {value}, could not put it down.",
            "I'm through with {value}, the last chapter got me.",
        ),
        ("Which books has {who} read?", "What novels did {who} finish?"),
        3,
    ),
    Told(
        SEVERAL,
        ("climbing", "bird watching", "baking sourdough", "chess by mail", "sketching", "ice swimming"),
        ("These days {value} is how I wind down.", "I've been really into {value} lately."),
        ("What are {whose} hobbies?", "What does {who} do to relax in the spare time?"),
        3,
    ),
    Told(
        SEVERAL,
        ("Porto", "the Dolomites", "Hokkaido", "Tbilisi", "the Hebrides", "Oaxaca"),
        (
            "Back from {value}, my legs are tired and the photos are great.",
            "We spent our days off in {value}.",
        ),
        ("Where has {who} travelled?", "Which places did {who} visit on holiday?"),
        3,
    ),
    Told(
        INFERENCE,
        ("peanuts", "shellfish", "gluten"),
        (
            "I had to send the plate back, {value} makes my throat swell up.",
            "No {value} for me, doctor's word.",
        ),
        ("What allergies does {who} have?", "Which food would make {who} ill?"),
    ),
    Told(
        INFERENCE,
        ("the night trains", "the cabin without signal", "the empty beach at dawn"),
        ("Honestly {value} beats any party.", "Nobody around, just {value}. That's me at my happiest."),
        ("Would {who} be considered an introvert?", "Does {who} rather like company or quiet?"),
    ),
    Told(
        INFERENCE,
        ("the mortgage letter", "the overdraft", "the second reminder from the bank"),
        ("I left {value} unopened for a week.", "{value} came, so eating out is off the table."),
        ("Is {who} likely to be short of money?", "How are {whose} finances?"),
    ),
)
# Words of the questions with nothing to be found in them, and the same sort of fact about others.
ASKED_BACK = (
    "Do you have a pet?",
    "What's your favourite colour, by the way?",
    "Have you read any good books lately?",
    "Where would you live if you could pick any place?",
    "Any hobbies you'd recommend to relax?",
    "Do you travel much on holiday?",
    "What does a job like that cost you?",
)
OF_OTHERS = (
    "My neighbour's dog barks all night.",
    "A colleague moved to Berlin last month.",
    "My uncle used to play the trumpet in a band.",
    "My boss visited Rome and talked about nothing else.",
    "A friend of mine is reading War and Peace for the third time.",
    "My flatmate is allergic to cats, poor thing.",
)
SMALL_TALK = (
    "Morning! Slept badly, need coffee.",
    "Ha, fair enough.",
    "It has been raining for three days straight.",
    "Sorry, got distracted, where were we?",
    "ok cool",
    "That makes sense, thanks!",
    "So much to do before the weekend.",
    "lol same",
    "The lift is out of order again.",
    "Right, I'll try that tonight.",
)
REQUESTS = (
    "Can you write a polite reminder to the landlord about the heating?",
    "Help me plan a week of cheap dinners.",
    "Summarise the difference between a Roth and a traditional account.",
    "Give me three stretches for a stiff back.",
    "How do I centre a div with grid?",
    "Draft a short speech for a leaving party.",
)
ANSWERS = (
    """
Of course. Start with the main point, keep the tone friendly, and end with a clear next step. If you like, I
can make it shorter, or add a line about when you would like to hear back.

Here is a plan you can adapt: pick two or three basics, prepare them on one day, and vary the rest with what
is in season. Tell me about your budget, your favourite food and how much time you have.

Great question! There are a few things to consider: what it costs, how long it takes and who will live with
the result. Would you like me to go through them one by one?

Thanks for telling me. I'll keep that in mind. Is there anything else I can do for you today?
""".strip()
    .replace("\n\n", "|")
    .replace("\n", " ")
    .split("|")
)


def made_chats(count: int) -> list[dict[str, Any]]:
    """Half of them with an assistant, half between friends."""
    kinds = ("assistant", "friends")
    return [_Chat(kinds[number % 2], number).made() for number in range(count)]


class _Chat:
    """One conversation while it is written."""

    def __init__(self, kind: str, number: int) -> None:
        self._random = random.Random(1_000 + number)  # noqa: S311 - repeatable chats, no secret
        self._kind = kind
        self._name = f"{kind}-{number}"
        self._people = ("user", "assistant") if kind == "assistant" else ("Ines", "Tom")
        self._turns: list[dict[str, Any]] = []
        self._questions: list[dict[str, Any]] = []

    def made(self) -> dict[str, Any]:
        planned: list[list[tuple[str, str, int]]] = [[] for _ in range(SESSIONS)]
        tellers = self._people[:1] if self._kind == "assistant" else self._people
        for who in tellers:
            for fact in FACTS:
                self._plan(fact, who, planned)
        for session, facts in enumerate(planned):
            self._write(session, facts)
        told: dict[int, list[str]] = {}
        for turn in self._turns:
            if turn["tells"] is not None:
                told.setdefault(turn["tells"], []).append(turn["id"])
        for number, question in enumerate(self._questions):
            question["evidence"] = told[number]
        return {"name": self._name, "turns": self._turns, "questions": self._questions}

    def _plan(self, fact: Told, who: str, planned: list[list[tuple[str, str, int]]]) -> None:
        """Spread the tellings of a fact over sessions, and note its question."""
        values = self._random.sample(fact.values, fact.count)
        groups = [values] if fact.category == SEVERAL else [[value] for value in values]
        for group in groups:
            number = len(self._questions)
            names = {"who": who, "whose": f"{who}'s"} if who != "user" else {"who": "I", "whose": "my"}
            asked = self._random.choice(fact.questions).format(value=_of_another(group[0], who), **names)
            for wrong, right in FIRST_PERSON.items():
                asked = asked.replace(wrong, right)
            self._questions.append({"question": asked, "category": fact.category})
            for value, session in zip(group, self._random.sample(range(SESSIONS), len(group)), strict=True):
                text = self._random.choice(fact.tellings).format(value=value, when=self._random.choice(WHENS))
                planned[session].append((who, text[0].upper() + text[1:], number))

    def _write(self, session: int, facts: list[tuple[str, str, int]]) -> None:
        """A session: what is told, in between the rest, in bursts or with answers."""
        moment = BEGUN + timedelta(days=9 * session + self._random.randrange(5))
        said: list[tuple[str, str, int | None]] = [(who, text, number) for who, text, number in facts]
        for source, most in ((SMALL_TALK, 6), (ASKED_BACK, 2), (OF_OTHERS, 2), (REQUESTS, 3)):
            if source is REQUESTS and self._kind != "assistant":
                continue
            for text in self._random.sample(source, self._random.randint(1, most)):
                who = self._people[0] if self._kind == "assistant" else self._random.choice(self._people)
                said.append((who, text, None))
        self._random.shuffle(said)
        for who, text, number in said:
            self._say(session, moment, who, text, number)
            if self._kind == "assistant":
                self._say(session, moment, "assistant", self._random.choice(ANSWERS), None)

    def _say(self, session: int, moment: datetime, who: str, text: str, tells: int | None) -> None:
        self._turns.append(
            {
                "id": f"D{session + 1}:{len(self._turns) + 1}",
                "speaker": who,
                "session": session + 1,
                "date": f"{moment:%I:%M} {moment:%p} on {moment.day} {moment:%B}, {moment.year}",
                "text": text if self._kind == "assistant" else f"{who}: {text}",
                "tells": tells,
            }
        )


def _of_another(value: str, who: str) -> str:
    """The value as the question has it: "my wrist" of another is "their wrist"."""
    return value if who == "user" else value.replace("my ", "their ")


def kinds(chats: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The chats of each kind."""
    for kind in ("assistant", "friends"):
        yield kind, [chat for chat in chats if chat["name"].startswith(kind)]
