"""What comes first among the passages found, and what is not listed at all."""

from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.providers.local import LocalMemory, MiniLM
from holdfast.providers.local.embedding import missing_packages
from holdfast.providers.local.substance import asks_for_time, dates_asked, substance, tells_time
from tests.providers.local.completed_turns import turn
from tests.providers.local.conftest import OpenMemory

# Far apart, so that none is another's neighbour.
APART = ("s1", "s2", "s3", "s4")


def remember(memory: LocalMemory, *told: str) -> None:
    memory.sync_turns([turn(1, text, session=session) for text, session in zip(told, APART, strict=False)])


def found(memory: LocalMemory, query: str) -> list[str]:
    return [each.text for each in memory.search(query)]


class Similarities:
    """An embedder whose texts have a given similarity to the question, which is any other text."""

    model = "given similarities"

    def __init__(self, given: dict[str, float]) -> None:
        self._given = given

    def embed(self, texts: Sequence[str]) -> Any:  # noqa: ANN401 - a numpy matrix
        import numpy as np

        cosines = np.array([self._given.get(text, 1.0) for text in texts], dtype=np.float32)
        return np.stack([cosines, np.sqrt(1 - cosines**2)], axis=1)


@pytest.mark.parametrize(
    ("similarity", "is_listed"), [(0.45, True), (0.2, False)], ids=["near enough", "only vaguely near"]
)
def test_what_shares_no_word_is_listed_only_when_it_is_near_enough(
    open_memory: OpenMemory, similarity: float, is_listed: bool
) -> None:
    pytest.importorskip("numpy")
    memory = open_memory(Similarities({"we ate loaves": similarity}))
    remember(memory, "we ate loaves")
    assert (found(memory, "bread") == ["we ate loaves"]) == is_listed


def test_what_has_a_word_of_the_query_is_listed_however_far_its_vector_is(open_memory: OpenMemory) -> None:
    pytest.importorskip("numpy")
    memory = open_memory(Similarities({"the bread bin": 0.0}))
    remember(memory, "the bread bin")
    assert found(memory, "bread") == ["the bread bin"]


@pytest.mark.skipif(bool(missing_packages()), reason="needs the extra `embeddings`")
def test_a_search_for_bread_does_not_list_what_has_nothing_to_do_with_it(open_memory: OpenMemory) -> None:
    memory = open_memory(MiniLM())
    remember(
        memory, "think hard", "I bake sourdough loaves every Sunday", "ok cool", "The lift is out of order"
    )
    assert found(memory, "bread") == ["I bake sourdough loaves every Sunday"]


def test_a_person_who_looks_for_bread_is_not_shown_what_was_said_beside_it(memory: LocalMemory) -> None:
    said = ["think hard", "I bake bread every Sunday", "run many lines", "ok cool", "more bread, please"]
    memory.sync_turns([turn(number, text) for number, text in enumerate(said, start=1)])
    assert {each.text for each in memory.browse("bread", 10)} == {said[1], said[4]}
    assert len(memory.browse("bread", 1)) == 1
    assert "think hard" in memory.prefetch("bread"), "a turn is given what stands beside it"


def test_what_has_no_vector_yet_is_not_ranked_behind_for_it(open_memory: OpenMemory) -> None:
    pytest.importorskip("numpy")
    from tests.providers.local.hashing_embedder import HashingEmbedder

    embedder = HashingEmbedder()
    memory = open_memory(embedder)
    remember(memory, "our bread was old", "a knife for bread and butter")
    embedder.fails = True
    memory.sync_turns([turn(1, "their fresh bread rolls", session="s9")])
    embedder.fails = False
    assert found(memory, "fresh bread rolls")[0] == "their fresh bread rolls"


def test_what_tells_something_comes_before_a_question_with_the_same_words(memory: LocalMemory) -> None:
    # Otherwise alike, the newest would come first.
    remember(memory, "Rex is my pet", "Is there a pet?")
    assert found(memory, "pet")[0] == "Rex is my pet"


def test_a_question_for_a_time_finds_first_what_names_one(memory: LocalMemory) -> None:
    remember(memory, "I ran the marathon Sunday", "I liked the marathon food")
    assert found(memory, "When was the marathon?")[0] == "I ran the marathon Sunday"
    assert found(memory, "What about the marathon?")[0] == "I liked the marathon food"


def test_a_question_about_a_month_finds_first_what_was_said_in_it(memory: LocalMemory) -> None:
    march, may = 1_709_640_000.0, 1_715_000_000.0  # 5 March and 6 May 2024
    for number, when in enumerate((march, may, march - 366 * 86_400)):
        memory.sync_turns([turn(number, "We hiked over the ridge", session=f"s{number}", at=when)])
    found = memory.search("Which ridge did we hike over in March 2024?")
    assert found[0].created == march
    # The last one that was said wins where no month is named, and where "may" is a verb.
    assert memory.search("Which ridge may we have hiked over?")[0].created == may


def test_months_and_years_are_known_in_a_question() -> None:
    assert dates_asked("Who came in May or June 2023?") == [{"may", "june"}, {"2023"}]
    assert dates_asked("What may she march for in 12 days?") == [{"march"}]
    assert dates_asked("Who came?") == []


@pytest.mark.parametrize("query", ["When did Ann move?", "how long has he been away", "On which day was it?"])
def test_a_question_for_a_time_is_known_by_its_words(query: str) -> None:
    assert asks_for_time(query)


@pytest.mark.parametrize("query", ["Where did Ann move?", "What may I eat?", ""])
def test_another_question_asks_for_no_time(query: str) -> None:
    assert not asks_for_time(query)


def test_a_verb_is_not_taken_for_the_month_of_may() -> None:
    assert tells_time("We met in June")
    assert not tells_time("It may rain")


@pytest.mark.parametrize("text", ["", "What do you think of it?", "So you were there?"])
def test_a_question_alone_has_no_substance(text: str) -> None:
    assert substance(text) == 0


def test_a_statement_in_a_script_without_spaces_has_substance() -> None:
    assert substance("私は毎週日曜日にパンを焼きます。") > 0.5
    assert substance("パンは好きですか？") < 0.3  # noqa: RUF001 - its own question mark
