"""The algebra of phases, and the matrix that follows the file."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.providers.holographic.conftest import OpenMemory

np = pytest.importorskip("numpy")

from holdfast.providers.holographic.facts import Statement  # noqa: E402 - needs numpy
from holdfast.providers.holographic.store import FactStore  # noqa: E402
from holdfast.providers.holographic.vectors import (  # noqa: E402
    FactMatrix,
    atom,
    bind,
    bundle,
    content_vector,
    entity_vector,
    fact_vector,
)
from holdfast.testing import FakeClock  # noqa: E402

NOISE = 0.12
"""Five times the spread of the similarity of unrelated vectors of 1,024 phases."""


def similarity(one: Any, other: Any) -> float:  # noqa: ANN401 - phases
    """The mean cosine of the angles between them; a phase is a 256th of a turn."""
    return float(np.cos((one - other) * (2 * np.pi / 256)).mean())


@given(one=st.text(), other=st.text())
def test_what_was_bound_is_unbound_exactly(one: str, other: str) -> None:
    assert np.array_equal(bind(atom(one), atom(other)) - atom(other), atom(one))


def test_an_atom_is_the_same_everywhere_and_like_no_other() -> None:
    assert atom("word:tea").tobytes()[:4].hex() == "3a38b062"
    assert np.array_equal(atom("tea"), atom("tea"))
    assert similarity(atom("tea"), atom("tea")) == pytest.approx(1.0)
    assert abs(similarity(atom("tea"), atom("milk"))) < NOISE
    assert abs(similarity(bind(atom("tea"), atom("milk")), atom("tea"))) < NOISE


@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_a_bundle_is_like_each_of_its_parts(count: int) -> None:
    parts = [atom(f"part {number}") for number in range(count)]
    together = bundle(parts)
    assert all(similarity(together, part) > 0.2 for part in parts)
    assert abs(similarity(together, atom("stranger"))) < NOISE


def test_a_fact_is_like_its_text_and_its_names_each_in_its_place() -> None:
    fact = fact_vector(["ann", "plai", "cello"], ["ann"])
    assert similarity(fact, entity_vector("ann")) > 0.3
    text = content_vector(["plai", "cello"])
    assert text is not None
    assert similarity(fact, text) > 0.2
    assert abs(similarity(fact, entity_vector("bob"))) < NOISE
    assert abs(similarity(fact, entity_vector("cello"))) < NOISE, "a word of the text is no name"


class Counting:
    """The queries, with a count of the vectors that were read."""

    def __init__(self, store: FactStore) -> None:
        self._queries = store.queries
        self.read = 0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - aiosql's are dynamic
        return getattr(self._queries, name)

    def vectors_after(self, connection: sqlite3.Connection, **bound: int) -> Any:  # noqa: ANN401
        rows = list(self._queries.vectors_after(connection, **bound))
        self.read += len(rows)
        return rows


def test_the_matrix_reads_only_what_is_new(path: Path, clock: FakeClock) -> None:
    store = FactStore(str(path), clock=clock)
    queries = Counting(store)
    matrix = FactMatrix(queries)
    store.add_extracted([(Statement(f"Ann owns house number {number}"), None) for number in range(600)])
    store.read(matrix.refresh)
    assert (len(matrix), queries.read) == (600, 600)
    added, _ = store.add(Statement("Zoe keeps bees"))
    store.forget(7)
    store.change(8, content="Ann owns a boat")
    store.read(matrix.refresh)
    assert (len(matrix), queries.read) == (600, 602)
    near = matrix.similarities(entity_vector("zoe"), [7, 8, 9, added])
    assert set(near) == {8, 9, added}, "what is gone has no likeness"
    assert max(near, key=lambda fact_id: near[fact_id]) == added
    store.close()


def test_a_row_that_became_free_is_used_again(path: Path, clock: FakeClock) -> None:
    store = FactStore(str(path), clock=clock)
    matrix = FactMatrix(store.queries)
    first = [store.add(Statement(f"Ann owns house number {number}"))[0] for number in range(5)]
    store.read(matrix.refresh)
    for fact_id in first[:3]:
        store.forget(fact_id)
    store.read(matrix.refresh)
    later = [store.add(Statement(f"Zoe{number} keeps bees"))[0] for number in range(6)]
    store.read(matrix.refresh)
    assert len(matrix) == 8
    for number, fact_id in enumerate(later):
        near = matrix.similarities(entity_vector(f"zoe{number}"), [*first, *later])
        assert max(near, key=lambda each: near[each]) == fact_id
    store.close()


def test_a_memory_reads_its_vectors_when_it_starts(open_memory: OpenMemory) -> None:
    first = open_memory()
    first.add("Ann sings")
    first.shutdown()
    second = open_memory()
    second.initialize("s1")
    assert [fact["content"] for fact in second.run_action(action="probe", entity="Ann")["facts"]] == [
        "Ann sings"
    ]
