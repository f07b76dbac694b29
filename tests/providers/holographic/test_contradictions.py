"""Plain opposites and changed values are found; what can both be true is left alone."""

import pytest

from holdfast.providers.holographic import HolographicMemory
from holdfast.testing import FakeClock
from tests.providers.holographic.tool_calls import ask

OPPOSITES = [
    ("Ann likes tea", "Ann does not like tea"),
    ("Ann likes tea", "Ann doesn't like tea"),
    ("Ann loves jazz", "Ann hates jazz"),
    ("Ann is a vegetarian", "Ann is not vegetarian"),
    ("Ann can swim", "Ann can't swim"),
    ("Ann drinks coffee", "Ann never drinks coffee"),
    ("Ann eats meat", "Ann no longer eats meat"),
    ("Ann smokes", "Ann stopped smoking"),
    ("Ann has a car", "Ann has no car"),
    ("Ann is happy", "Ann is unhappy"),
    ("Ann is married", "Ann is single"),
    ("The cache is enabled", "The cache is disabled"),
    ("The door is open", "The door is closed"),
    ("Deploys are allowed on Friday", "Deploys are forbidden on Friday"),
    ("The user prefers dark mode", "The user prefers light mode"),
    ("I'm allergic to nuts", "The user is not allergic to nuts"),
]
CHANGED_VALUES = [
    ("The user lives in Berlin", "The user lives in Paris"),
    ("I live in Berlin", "The user has moved to Paris"),
    ("Ann works at Acme", "Ann works for Globex"),
    ("The user's favourite colour is blue", "My favourite colour is green"),
    ("My name is Bob", "The user's name is Rob"),
    ("The capital of Australia is Sydney", "The capital of Australia is Canberra"),
    ("The project uses PostgreSQL for storage", "The project uses MySQL for storage"),
    ("The user prefers tea over coffee", "The user prefers coffee to tea"),
    ("The service runs on Debian", "The service runs on Fedora"),
]
NUMBERS_AND_DATES = [
    ("Ann has two cats", "Ann has 3 cats"),
    ("Ann is 30 years old", "Ann is 31 years old"),
    ("Ann was born in 1990", "Ann was born in 1991"),
    ("The price is 5 euros", "The price is 7 euros"),
    ("The server listens on port 5432", "The server listens on port 5433"),
    ("The meeting is on Tuesday", "The meeting is on Wednesday"),
    ("The deadline is 3 May", "The deadline is 4 May"),
    ("The backup runs at 3 am", "The backup runs at 4 am"),
    ("The release is due on 2026-05-01", "The release is due on 2026-06-01"),
]
BOTH_TRUE = [
    ("Ann likes tea", "Ann likes milk"),
    ("Ann likes Bob", "Bob does not like Ann"),
    ("Ann lives in Berlin", "Bob lives in Paris"),
    ("Ann lives in Berlin", "Ann lives in Berlin, Germany"),
    ("Ann used to live in Berlin", "Ann lives in Paris"),
    ("Ann was a nurse", "Ann is not a nurse"),
    ("Ann is tall", "Ann is kind"),
    ("Ann is not old", "Ann is not young"),
    ("Ann's dog is brown", "Ann's dog is friendly"),
    ("Ann has two cats", "Ann has three dogs"),
    ("Ann works at Acme", "Ann works as a nurse"),
    ("Ann is from Oslo", "Ann lives in Rome"),
    ("Ticket 123 is closed", "Ticket 124 is closed"),
    ("The shop opens at 9", "The shop closes at 18"),
    ("It is blue", "It is not blue"),
]


@pytest.mark.parametrize(("older", "newer"), [*OPPOSITES, *CHANGED_VALUES, *NUMBERS_AND_DATES])
def test_two_facts_that_exclude_each_other_are_found(
    memory: HolographicMemory, clock: FakeClock, older: str, newer: str
) -> None:
    memory.add("Zoe plays the harp")
    ask(memory, "add", content=older)
    clock.advance(60)
    added = ask(memory, "add", content=newer)
    assert [each["content"] for each in added["contradicts"]] == [older]
    found = ask(memory, "contradict")["contradictions"]
    assert [(pair["older"]["content"], pair["newer"]["content"]) for pair in found] == [(older, newer)]


@pytest.mark.parametrize(("one", "other"), BOTH_TRUE)
def test_two_facts_that_can_both_be_true_are_left_alone(
    memory: HolographicMemory, one: str, other: str
) -> None:
    ask(memory, "add", content=one)
    assert "contradicts" not in ask(memory, "add", content=other)
    assert ask(memory, "contradict") == {"contradictions": [], "found": 0}


def test_contradictions_can_be_asked_for_one_fact_and_for_one_entity(memory: HolographicMemory) -> None:
    ann = memory.add("Ann lives in Rome")
    memory.add("Ann lives in Oslo")
    memory.add("Bob lives in Rome")
    memory.add("Bob lives in Oslo")
    assert ask(memory, "contradict")["found"] == 2
    assert ask(memory, "contradict", fact_id=ann)["found"] == 1
    [pair] = ask(memory, "contradict", entity="Bob")["contradictions"]
    assert pair["newer"]["content"] == "Bob lives in Oslo"


def test_a_fact_that_was_corrected_contradicts_no_more(memory: HolographicMemory) -> None:
    old = memory.add("Ann lives in Rome")
    memory.add("Ann lives in Oslo")
    assert ask(memory, "update", fact_id=old, content="Ann used to live in Rome")["updated"]["id"] == old
    assert ask(memory, "contradict")["found"] == 0


def test_what_a_newer_fact_contradicts_comes_after_it(memory: HolographicMemory, clock: FakeClock) -> None:
    memory.add("The user lives in Rome, in the old town near the river")
    clock.advance(60)
    memory.add("The user lives in Oslo")
    first = memory.search("Where does the user live, Rome?")[0]
    assert first.content == "The user lives in Oslo"


def test_the_newer_of_two_is_the_one_whose_text_was_changed_last(
    memory: HolographicMemory, clock: FakeClock
) -> None:
    first = memory.add("Ann lives in Bonn")
    clock.advance(60)
    memory.add("Ann lives in Oslo")
    clock.advance(60)
    ask(memory, "update", fact_id=first, content="Ann lives in Rome")
    [pair] = ask(memory, "contradict")["contradictions"]
    assert pair["newer"]["content"] == "Ann lives in Rome"
