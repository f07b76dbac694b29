"""Facts are taken from conversations: by rules as turns come, by a model at a boundary; no secrets."""

import threading
import time
from collections.abc import Callable

import pytest

from holdfast.core.contract import Message
from holdfast.core.errors import StoreClosed
from holdfast.providers.holographic import HolographicMemory
from holdfast.testing import FakeClock
from tests.providers.holographic.conftest import OpenMemory
from tests.providers.holographic.fake_model import FakeModel
from tests.providers.holographic.tool_calls import ask, contents
from tests.providers.local.completed_turns import turn

DEADLINE = 120.0
TALK: list[Message] = [
    {"role": "user", "content": "I live in Oslo. Could you find me a dentist?"},
    {"role": "assistant", "content": "I like Dr Berg. Ann is a dentist, too."},
]


def eventually(condition: Callable[[], bool], clock: FakeClock | None = None, step: float = 0) -> bool:
    """Whether the condition comes true under the deadline; the clock goes on meanwhile."""
    pause, end = threading.Event(), time.monotonic() + DEADLINE
    while not condition():
        if clock is not None:
            clock.advance(step)
        if time.monotonic() > end:
            return False
        pause.wait(0.005)
    return True


def kept(memory: HolographicMemory) -> list[str]:
    return sorted(contents(ask(memory, "list", limit=50, min_trust=0)))


@pytest.mark.parametrize(
    ("said", "facts"),
    [
        ("I live in Berlin.", ["The user lives in Berlin"]),
        (
            "Thanks! I don't eat meat, and I've moved to Paris",
            ["The user doesn't eat meat, and the user has moved to Paris"],
        ),
        ("I really like jazz. What do you like?", ["The user really likes jazz"]),
        ("Please remember that my sister's name is Ann.", ["The user's sister's name is Ann"]),
        ("We decided to use PostgreSQL for storage.", ["We decided to use PostgreSQL for storage"]),
        ("The deploy server runs on Debian 12.", ["The deploy server runs on Debian 12"]),
        ("Ann is allergic to nuts!", ["Ann is allergic to nuts"]),
        ("Zoe: my favourite tea is oolong", ["Zoe's favourite tea is oolong"]),
        ("Call me Ishmael please? Write me a poem.", []),
        ("Can you explain how I use ruff?", []),
        ("I'm trying to fix a bug. I think it is odd. It was awesome.", []),
        ("```\nmy_list is a list\n```\n> Ann is quoted here", []),
        ("hello there", []),
        ("", []),
    ],
)
def test_what_a_person_states_is_kept_by_rules(
    memory: HolographicMemory, said: str, facts: list[str]
) -> None:
    memory.sync_turns([turn(1, said, "Ann is what the assistant says")])
    assert kept(memory) == facts


@pytest.mark.parametrize(
    "said",
    [
        "My password is hunter2",
        "Remember that the API key is abc",
        "I use sk-proj-0123456789abcdef for the server",
        "The database is at postgresql://me:secret@db/main",
        "My token: 8f14e45fceea167a5a36dedd4bea2543",
    ],
)
def test_what_looks_like_a_secret_is_not_taken(open_memory: OpenMemory, said: str) -> None:
    memory = open_memory()
    memory.sync_turns([turn(1, said)])
    memory.on_session_end([{"role": "user", "content": said}])
    assert kept(memory) == []
    by_model = open_memory(complete=FakeModel(said))
    by_model.on_session_end([{"role": "user", "content": said}])
    assert eventually(lambda: by_model.describe().waiting == 0)
    assert kept(memory) == []


@pytest.mark.clause("D2")
def test_a_turn_delivered_twice_adds_nothing(memory: HolographicMemory) -> None:
    turns = [turn(1, "I live in Oslo"), turn(2, "Ann has a boat")]
    memory.sync_turns(turns)
    memory.sync_turns(turns)
    memory.sync_turn("I live in Oslo.", "Noted", session_id="s1")
    memory.on_session_end([{"role": "user", "content": "I live in Oslo"}])
    assert kept(memory) == ["Ann has a boat", "The user lives in Oslo"]


def test_the_same_thing_said_with_other_endings_is_one_fact(memory: HolographicMemory) -> None:
    memory.add("The user likes the opera")
    memory.sync_turns([turn(1, "I like opera!")])
    assert kept(memory) == ["The user likes the opera"]


def test_a_fact_knows_the_turns_it_was_said_in(memory: HolographicMemory) -> None:
    memory.sync_turns([turn(1, "I live in Oslo"), turn(2, "I live in Oslo", session="s2")])
    found = memory.search("Oslo")
    assert memory.turns_of(found) == {found[0].id: ["s1-t1", "s2-t2"]}


@pytest.mark.parametrize("way", ["remove", "update"])
def test_a_forgotten_fact_does_not_come_back_with_its_turn(memory: HolographicMemory, way: str) -> None:
    memory.sync_turns([turn(1, "I live in Oslo")])
    [fact] = memory.search("Oslo")
    ask(memory, way, fact_id=fact.id, **({"content": "The user lives in Rome"} if way == "update" else {}))
    memory.sync_turns([turn(1, "I live in Oslo")])
    memory.on_session_end([{"role": "user", "content": "I live in Oslo"}])
    assert "Oslo" not in " ".join(kept(memory))
    memory.add("The user lives in Oslo")
    assert "The user lives in Oslo" in kept(memory)


def test_a_boundary_without_a_model_keeps_what_the_person_said(memory: HolographicMemory) -> None:
    memory.on_session_end(TALK)
    assert kept(memory) == ["The user lives in Oslo"]


def test_a_boundary_asks_the_model_once_and_keeps_what_it_found(open_memory: OpenMemory) -> None:
    model = FakeModel("The user lives in Oslo", "The user needs a dentist")
    memory = open_memory()
    memory.initialize("s1", complete=model)
    memory.sync_turns([turn(1, "I live in Oslo. I sing every day.")])
    assert kept(memory) == [], "with a model that is left to the boundary"
    memory.on_session_end(TALK, session_id="s1")
    memory.on_session_end(TALK, session_id="s1")
    assert eventually(lambda: memory.describe().waiting == 0)
    assert kept(memory) == ["The user lives in Oslo", "The user needs a dentist"]
    assert model.sessions == ["s1"]
    assert "user: I live in Oslo" in model.asked[0]


def test_a_boundary_does_not_wait_for_the_model(open_memory: OpenMemory) -> None:
    gate = threading.Event()
    model = FakeModel("The user lives in Oslo")
    model.before = lambda: gate.wait(DEADLINE)
    memory = open_memory(complete=model)
    memory.on_session_end(TALK)
    assert memory.describe().waiting == 1
    gate.set()
    assert eventually(lambda: kept(memory) == ["The user lives in Oslo"])


def test_a_model_that_fails_is_asked_again_later(open_memory: OpenMemory, clock: FakeClock) -> None:
    model = FakeModel("The user lives in Oslo")
    model.fails = True
    memory = open_memory(complete=model)
    memory.on_session_end(TALK)
    assert eventually(lambda: len(model.asked) == 1)
    assert memory.describe().waiting == 1
    model.fails = False
    assert eventually(lambda: memory.describe().waiting == 0, clock, 5)
    assert kept(memory) == ["The user lives in Oslo"]


@pytest.mark.parametrize("answer", ["I am sorry, Dave", '{"facts": 7}', "[]", '{"fakts": []}'])
def test_a_model_that_never_answers_with_facts_gives_way_to_the_rules(
    open_memory: OpenMemory, clock: FakeClock, answer: str
) -> None:
    model = FakeModel()
    model.answer = answer
    memory = open_memory(complete=model)
    memory.on_session_end(TALK)
    assert eventually(lambda: memory.describe().waiting == 0, clock, 400)
    assert kept(memory) == ["The user lives in Oslo"]
    assert len(model.asked) == 6


def test_nonsense_among_the_facts_is_left_out(open_memory: OpenMemory) -> None:
    model = FakeModel()
    model.answer = (
        'Here you are: {"facts": [{"content": "Ann sings", "category": "gossip", "entities": [1, "Ann"]}, 7,'
        ' {"content": ""}, {"content": 5}, {"fact": "x"}, {"content": "' + "x" * 500 + '"}]}. Bye!'
    )
    memory = open_memory(complete=model)
    memory.on_session_end(TALK)
    assert eventually(lambda: memory.describe().waiting == 0)
    assert kept(memory) == ["Ann sings"]


@pytest.mark.clause("L13")
def test_what_waits_when_the_program_ends_is_extracted_at_the_next_start(
    open_memory: OpenMemory, clock: FakeClock
) -> None:
    down = FakeModel()
    down.fails = True
    first = open_memory(complete=down)
    first.on_session_end(TALK)
    assert eventually(lambda: len(down.asked) == 1)
    first.shutdown()
    clock.advance(3600)
    second = open_memory()
    second.initialize("s1", complete=FakeModel("The user lives in Oslo"))
    assert eventually(lambda: second.describe().waiting == 0)
    assert kept(second) == ["The user lives in Oslo"]


def test_a_long_conversation_is_asked_about_in_parts(open_memory: OpenMemory) -> None:
    model = FakeModel("The user writes a lot")
    memory = open_memory(complete=model)
    memory.on_session_end([{"role": "user", "content": f"part {n} " + "words " * 900} for n in range(10)])
    assert eventually(lambda: memory.describe().waiting == 0)
    assert len(model.asked) > 2
    assert all(len(asked) < 13_000 for asked in model.asked)
    assert all(any(f"part {n} " in asked for asked in model.asked) for n in range(10))


def test_the_conversation_leaves_the_file_when_its_facts_are_kept(open_memory: OpenMemory) -> None:
    memory = open_memory(complete=FakeModel("Ann sings"))
    memory.on_session_end([{"role": "user", "content": "The word is Xylophagous"}])
    assert eventually(lambda: memory.describe().waiting == 0)
    assert memory.search("Xylophagous") == []


@pytest.mark.clause("D4")
def test_after_shutdown_nothing_is_taken(memory: HolographicMemory) -> None:
    memory.initialize("s1")
    memory.shutdown()
    memory.shutdown()
    memory.sync_turn("I live in Oslo", "Noted", session_id="s1")
    with pytest.raises(StoreClosed):
        memory.sync_turns([turn(1, "I live in Oslo")])
    with pytest.raises(StoreClosed):
        memory.on_session_end(TALK)


@pytest.mark.slow
def test_a_wedged_model_does_not_hold_up_shutdown(open_memory: OpenMemory) -> None:
    gate = threading.Event()
    model = FakeModel("Ann sings")
    model.before = lambda: gate.wait(DEADLINE)
    memory = open_memory(complete=model)
    memory.on_session_end(TALK)
    assert eventually(lambda: bool(model.asked))
    begun = time.monotonic()
    memory.shutdown()
    assert time.monotonic() - begun < 10
    gate.set()
    again = open_memory(complete=FakeModel("Ann sings in Rome"))
    assert again.describe().waiting == 1
    again.initialize("s1")
    assert eventually(lambda: again.describe().waiting == 0), "the next start need not wait for a lease"
    assert kept(again) == ["Ann sings in Rome"]


def test_a_note_saved_elsewhere_is_a_fact_too(memory: HolographicMemory) -> None:
    memory.on_memory_write("add", "user", "Prefers metric units")
    memory.on_memory_write("remove", "user", "Prefers imperial units")
    assert kept(memory) == ["Prefers metric units"]
