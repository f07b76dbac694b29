"""Facts are kept once, found by words, names and what they share, and trusted more or less."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.providers.holographic import HolographicMemory
from tests.fast_run import examples
from tests.providers.holographic.conftest import OpenMemory
from tests.providers.holographic.tool_calls import ask, contents, rate


def test_a_fact_is_kept_once_however_it_is_spaced_and_cased(memory: HolographicMemory) -> None:
    first = ask(memory, "add", content="Ann plays the cello.")
    again = ask(memory, "add", content="ann plays  the Cello")
    assert first["new"] is True
    assert again == {"id": first["id"], "new": False}
    assert memory.describe().facts == 1


def test_a_search_finds_other_endings_of_a_word(memory: HolographicMemory) -> None:
    memory.add("Ann painted a sunrise")
    memory.add("Bob repairs bicycles")
    assert contents(ask(memory, "search", query="paintings of sunrises")) == ["Ann painted a sunrise"]
    assert contents(ask(memory, "search", query="who repaired a bicycle?")) == ["Bob repairs bicycles"]


def test_a_search_can_be_limited_to_a_category(memory: HolographicMemory) -> None:
    ask(memory, "add", content="Ann likes Vim", category="user_pref", tags="editor")
    ask(memory, "add", content="The project is built with Vim scripts", category="project")
    assert contents(ask(memory, "search", query="vim", category="user_pref")) == ["Ann likes Vim"]
    assert contents(ask(memory, "search", query="editor")) == ["Ann likes Vim"]


def test_a_probe_gives_the_facts_about_a_name(memory: HolographicMemory) -> None:
    memory.add("Ann Smith plays the cello")
    memory.add("Bob met Ann Smith in Rome")
    memory.add("Zoe keeps bees")
    assert set(contents(ask(memory, "probe", entity="ann smith"))) == {
        "Ann Smith plays the cello",
        "Bob met Ann Smith in Rome",
    }
    assert contents(ask(memory, "probe", entity="the Zoe")) == ["Zoe keeps bees"]


def test_a_probe_of_an_unknown_name_finds_nothing_and_says_so(memory: HolographicMemory) -> None:
    for number in range(30):
        memory.add(f"Ann has seen film number {number}")
    answer = ask(memory, "probe", entity="Zaphod")
    assert answer["facts"] == []
    assert answer["unknown"] == ["Zaphod"]
    assert "nothing is known of Zaphod" in answer["note"]
    assert ask(memory, "probe", entity="Ann Zaphod")["unknown"] == ["Ann Zaphod"], "half a name is none"


def test_a_probe_finds_what_only_mentions_a_thing(memory: HolographicMemory) -> None:
    memory.add("Zoe keeps bees on the roof")
    assert contents(ask(memory, "probe", entity="bee")) == ["Zoe keeps bees on the roof"]


def test_a_probe_puts_a_fact_about_one_name_before_one_about_many(memory: HolographicMemory) -> None:
    memory.add("Ann, Bob, Zoe, Max and Kim went to Rome, Oslo and Bonn")
    memory.add("Ann sings")
    assert contents(ask(memory, "probe", entity="Ann"))[0] == "Ann sings"


def test_another_name_for_somebody_finds_the_same_facts(memory: HolographicMemory) -> None:
    memory.add("Bob works at Acme")
    memory.add("Robert, also known as Bob, plays the cello")
    memory.add("Robert likes rain")
    expected = {"Bob works at Acme", "Robert, also known as Bob, plays the cello", "Robert likes rain"}
    assert set(contents(ask(memory, "probe", entity="Bob"))) == expected
    assert set(contents(ask(memory, "probe", entity="robert"))) == expected


def test_related_names_what_shares_facts_with_an_entity(memory: HolographicMemory) -> None:
    memory.add("Ann works at Acme")
    memory.add("Acme is based in Rome")
    memory.add("Zoe keeps bees")
    answer = ask(memory, "related", entity="Ann")
    assert answer["connected_with"] == {"Acme": 1}
    assert contents(answer) == ["Acme is based in Rome"]
    assert ask(memory, "related", entity="Zaphod")["unknown"] == ["Zaphod"]


def test_reason_gives_the_facts_about_all_of_several(memory: HolographicMemory) -> None:
    memory.add("Ann met Bob in Rome")
    memory.add("Ann sings")
    memory.add("Bob dives")
    assert contents(ask(memory, "reason", entities=["Ann", "Bob"])) == ["Ann met Bob in Rome"]
    assert ask(memory, "reason", entities=["Ann", "Zaphod"])["unknown"] == ["Zaphod"]
    assert ask(memory, "reason", entities=["Rome", "Zoe"])["facts"] == []


def test_feedback_changes_trust_within_its_bounds(memory: HolographicMemory) -> None:
    fact = memory.add("Ann sings")
    assert rate(memory, "helpful", fact) == {"rated": fact, "trust": 0.55}
    assert rate(memory, "unhelpful", fact) == {"rated": fact, "trust": 0.45}
    for _ in range(20):
        rate(memory, "helpful", fact)
    assert rate(memory, "helpful", fact)["trust"] == 1.0
    for _ in range(20):
        rate(memory, "unhelpful", fact)
    assert rate(memory, "unhelpful", fact)["trust"] == 0.0
    assert "error" in rate(memory, "helpful", 99)


def test_a_fact_that_is_not_trusted_is_not_recalled(memory: HolographicMemory) -> None:
    fact = memory.add("Ann sings in Rome")
    for _ in range(2):
        rate(memory, "unhelpful", fact)
    assert "Ann sings" in memory.prefetch("Does Ann sing?")
    rate(memory, "unhelpful", fact)
    assert memory.prefetch("Does Ann sing?") == ""
    assert ask(memory, "probe", entity="Ann")["facts"] == []
    assert contents(ask(memory, "search", query="Ann", min_trust=0)) == ["Ann sings in Rome"]


def test_a_fact_more_trusted_comes_first(memory: HolographicMemory) -> None:
    memory.add("Ann plays chess well")
    better = memory.add("Zoe plays chess well")
    for _ in range(4):
        rate(memory, "helpful", better)
    assert contents(ask(memory, "search", query="plays chess well"))[0] == "Zoe plays chess well"
    assert contents(ask(memory, "list", limit=1)) == ["Zoe plays chess well"]


def test_a_fact_is_updated_and_removed(memory: HolographicMemory) -> None:
    fact = memory.add("Ann lives in Bonn")
    changed = ask(
        memory, "update", fact_id=fact, content="Ann lives in Rome", category="project", tags="city"
    )
    assert changed["updated"]["content"] == "Ann lives in Rome"
    assert changed["updated"]["category"] == "project"
    assert ask(memory, "search", query="Bonn")["facts"] == []
    assert ask(memory, "probe", entity="Bonn")["unknown"] == ["Bonn"]
    assert contents(ask(memory, "probe", entity="Rome")) == ["Ann lives in Rome"]
    assert ask(memory, "update", fact_id=fact, trust_delta=0.3)["updated"]["trust"] == 0.8
    assert ask(memory, "remove", fact_id=fact) == {"removed": fact}
    assert memory.describe().facts == memory.describe().entities == 0
    for action in ("update", "remove"):
        assert "error" in ask(memory, action, fact_id=fact, content="again")


def test_a_fact_cannot_become_another_that_is_known(memory: HolographicMemory) -> None:
    memory.add("Ann sings")
    other = memory.add("Ann dives")
    assert "says just this already" in ask(memory, "update", fact_id=other, content="Ann sings")["error"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"action": "add"},
        {"action": "add", "content": "   "},
        {"action": "add", "content": "x" * 2001},
        {"action": "add", "content": "Ann sings", "category": "gossip"},
        {"action": "search"},
        {"action": "probe"},
        {"action": "reason", "entities": []},
        {"action": "remove"},
        {"action": "dance"},
        {"action": "list", "limit": 0},
        {"action": "list", "lim": 3},
    ],
)
def test_what_a_model_gets_wrong_is_said_to_it(
    memory: HolographicMemory, arguments: dict[str, object]
) -> None:
    action = str(arguments.pop("action"))
    assert "error" in ask(memory, action, **arguments)
    assert memory.describe().facts == 0


@pytest.mark.parametrize(
    ("fact", "asked"),
    [
        ("我喜欢吃北京烤鸭", "北京"),
        ("東京に引っ越しました", "東京"),
        ("오늘 서울에서 만났어요", "서울"),
        ("we celebrated with 🎉 and 🍰", "🍰"),
        ("Köln ist schön", "koln"),
        ("naïve café", "CAFE"),
        ("Анна живёт в Риме", "анна"),
    ],
)
def test_any_script_is_kept_and_found(memory: HolographicMemory, fact: str, asked: str) -> None:
    memory.add("Zoe keeps bees")
    memory.add(fact)
    assert contents(ask(memory, "search", query=asked)) == [fact]
    assert contents(ask(memory, "probe", entity=asked)) == [fact]


ANY_TEXT = st.text(st.characters(codec=None), max_size=80) | st.text("\"*():^-+{}ANDORNOT near\x00\ud800 's")


@settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=ANY_TEXT)
def test_no_text_makes_it_fail(memory: HolographicMemory, text: str) -> None:
    ask(memory, "add", content=text)
    ask(memory, "search", query=text)
    ask(memory, "probe", entity=text)
    ask(memory, "reason", entities=[text, "Ann"])
    memory.prefetch(text, session_id=text)
    memory.sync_turn(text, text, session_id=text)


def test_the_tools_are_offered_as_function_schemas(memory: HolographicMemory) -> None:
    offered = {schema["function"]["name"]: schema["function"] for schema in memory.get_tool_schemas()}
    assert set(offered) == {"fact_store", "fact_feedback"}
    assert offered["fact_store"]["parameters"]["required"] == ["action"]


def test_the_block_shows_dates_and_trust_within_its_budget(open_memory: OpenMemory) -> None:
    memory = open_memory(token_budget=60)
    for number in range(20):
        memory.add(f"Ann owns garden number {number}")
    block = memory.prefetch("Ann's garden")
    assert 1 < len(block.splitlines()) < 10
    assert "trust 0.50] Ann owns garden number" in block
    assert len(block.encode()) <= 60 * 4
    assert open_memory(token_budget=5).prefetch("Ann's garden") == ""
