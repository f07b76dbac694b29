"""Vectors: made after the text is kept, caught up later, read anew by every process."""

import sqlite3
import threading
from pathlib import Path

import pytest

pytest.importorskip("numpy")

from holdfast.providers.local.store import PassageStore
from holdfast.testing import FakeClock
from tests.memory.gates import DEADLINE, Gate, until
from tests.providers.local.completed_turns import turn
from tests.providers.local.conftest import OpenMemory
from tests.providers.local.hashing_embedder import HashingEmbedder


def test_a_passage_that_shares_no_word_can_still_be_found(open_memory: OpenMemory) -> None:
    class Synonyms(HashingEmbedder):
        def embed(self, texts):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            return super().embed([text.replace("automobile", "car") for text in texts])

    memory = open_memory(Synonyms())
    memory.sync_turns([turn(1, "automobile"), turn(1, "garden", session="s2")])
    assert memory.search("car")[0].text == "automobile"
    assert memory.search("car", mode="text") == []


def test_recall_embeds_the_question_and_nothing_else(open_memory: OpenMemory) -> None:
    embedder = HashingEmbedder()
    memory = open_memory(embedder)
    memory.sync_turns([turn(1, "one"), turn(2, "two")])
    embedder.embedded.clear()
    memory.prefetch("three")
    assert embedder.embedded == ["three"]


def test_a_failing_model_costs_no_turn_and_is_caught_up_later(open_memory: OpenMemory) -> None:
    embedder = HashingEmbedder()
    memory = open_memory(embedder)
    embedder.fails = True
    memory.sync_turns([turn(1, "The boat is blue")])
    assert memory.search("boat", mode="text")
    assert memory.describe().without_vector == 1
    embedder.fails = False
    memory.sync_turns([turn(2, "The house is red")])
    assert memory.describe().without_vector == 0


def test_a_failing_model_does_not_hinder_recall_by_full_text(open_memory: OpenMemory) -> None:
    embedder = HashingEmbedder()
    memory = open_memory(embedder)
    memory.sync_turns([turn(1, "The boat is blue")])
    embedder.fails = True
    assert "boat is blue" in memory.prefetch("Which colour is the boat?")


def test_turns_kept_without_the_extra_get_their_vectors_once_it_is_there(open_memory: OpenMemory) -> None:
    open_memory(None).sync_turns([turn(number, f"fact {number}") for number in range(40)])
    memory = open_memory(HashingEmbedder())
    memory.sync_turns([turn(41, "one more")])
    assert memory.describe().without_vector == 0
    assert memory.search("fact 7", mode="vectors")


def test_what_lacks_its_vector_at_the_start_is_caught_up_beside_the_first_questions(
    open_memory: OpenMemory,
) -> None:
    open_memory(None).sync_turns([turn(number, f"fact {number}") for number in range(600)])
    embedder, gate = HashingEmbedder(), Gate()
    embedder.before = lambda texts: gate() if len(texts) > 1 else None
    memory = open_memory(embedder)
    memory.initialize("")
    gate.wait_reached()
    assert memory.search("fact 7", mode="text"), "recall works meanwhile"
    gate.open()
    until(lambda: memory.describe().without_vector == 0)
    assert len(embedder.embedded) == len(set(embedder.embedded))
    until(lambda: not any(each.name == "local-memory-vectors" for each in threading.enumerate()))


def test_shutting_down_ends_the_catching_up_and_the_next_start_goes_on(open_memory: OpenMemory) -> None:
    open_memory(None).sync_turns([turn(number, f"fact {number}") for number in range(200)])
    embedder, gate = HashingEmbedder(), Gate()
    embedder.before = lambda texts: gate() if len(texts) > 1 else None
    memory = open_memory(embedder)
    memory.initialize("")
    gate.wait_reached()
    ending = threading.Thread(target=memory.shutdown)
    ending.start()
    gate.open()
    ending.join(DEADLINE)
    assert not any(each.name == "local-memory-vectors" for each in threading.enumerate())
    again = open_memory(HashingEmbedder())
    assert 0 < again.describe().without_vector < 200
    again.initialize("")
    until(lambda: again.describe().without_vector == 0)


def test_vectors_of_another_model_are_made_anew(open_memory: OpenMemory) -> None:
    open_memory(HashingEmbedder("old")).sync_turns([turn(1, "The boat is blue")])
    memory = open_memory(HashingEmbedder("new"))
    assert memory.describe().without_vector == 1
    memory.sync_turns([])
    assert memory.search("boat", mode="vectors")


def test_what_another_memory_on_the_file_adds_is_found_at_once(open_memory: OpenMemory) -> None:
    embedder = HashingEmbedder()
    first, second = open_memory(embedder), open_memory(embedder)
    for number in range(5):
        first.sync_turns([turn(number, f"topic{number}", session=f"s{number}")])
        assert second.search(f"topic{number}", mode="vectors")[0].text == f"topic{number}"


def test_a_changed_text_is_found_by_its_new_vector(open_memory: OpenMemory) -> None:
    memory = open_memory(HashingEmbedder())
    note = memory.save_note("likes tea")
    memory.search("warm the matrix")
    memory.correct_note(note, "likes coffee")
    found = {each.text: each.score for each in memory.search("coffee", mode="vectors")}
    assert list(found) == ["likes coffee"]


def test_a_name_counts_as_the_speaker_and_not_as_the_matter(open_memory: OpenMemory) -> None:
    embedder = HashingEmbedder()
    memory = open_memory(embedder)
    memory.sync_turns([turn(1, "Ann: I bake bread"), turn(9, "Bob: I bake pies")])
    memory.search("What are Bob's pies like?")
    assert embedder.embedded == ["I bake pies", "I bake bread", "What are pies like?"]


def test_a_large_batch_gets_all_its_vectors(open_memory: OpenMemory) -> None:
    memory = open_memory(HashingEmbedder())
    memory.sync_turns([turn(number, f"fact {number}") for number in range(700)])
    assert memory.describe().without_vector == 0


def test_looking_for_missing_vectors_does_not_read_what_has_one(open_memory: OpenMemory, path: Path) -> None:
    def steps(store: PassageStore) -> int:
        counted: list[int] = []

        def count(connection: sqlite3.Connection) -> None:
            connection.set_progress_handler(lambda: counted.append(1), 1)

        store.read(count)
        assert store.without_vector(8) == []
        store.read(lambda connection: connection.set_progress_handler(None, 0))
        return len(counted)

    memory = open_memory(HashingEmbedder())
    memory.sync_turns([turn(1, "one")])
    store = PassageStore(str(path), clock=FakeClock())
    before = steps(store)
    memory.sync_turns([turn(number, f"fact {number}") for number in range(2, 200)])
    assert steps(store) == before
    store.close()
