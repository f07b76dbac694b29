"""The local memory of several people in one file: nobody finds what another said or noted."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.errors import Undeliverable
from holdfast.memory.contract import ConcurrentRecall, KeepsScopes, RecallAnswer
from holdfast.memory.forgetting import ForgetRequest
from holdfast.providers.local import LocalMemory
from holdfast.providers.local.embedding import missing_packages
from tests.memory.gates import DEADLINE, until
from tests.providers.local.completed_turns import turn
from tests.providers.local.conftest import OpenMemory

ANN, ROOM = "telegram-main/person-123", "matrix-home/room-abc"
SCOPES = ("", ANN, ROOM)


def of(memory: LocalMemory, scope: str) -> Any:  # noqa: ANN401 - the memory, or that of a scope
    return memory.for_scope(scope) if scope else memory


def recalled_whole(memory: Any) -> str:  # noqa: ANN401 - the memory, or that of a scope
    """What is recalled once the worker has the time for it: a busy one answers by full text alone."""
    answers: list[RecallAnswer] = []

    def is_whole() -> bool:
        answers.append(memory.begin_prefetch("the port for ships", session_id="asking").result(DEADLINE))
        return not answers[-1].note

    until(is_whole)
    return answers[-1].text


def tool(memory: LocalMemory, scope: str, name: str, **arguments: object) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(of(memory, scope).handle_tool_call(name, arguments))
    return answer


def fill(memory: LocalMemory) -> dict[str, int]:
    """The same thing said and noted by everybody, each with a word of their own; the ids of the notes."""
    notes = {}
    for number, scope in enumerate(SCOPES):
        said = turn(1, f"the harbour is word{number}", f"yes, word{number}", session=f"s{number}")
        of(memory, scope).sync_turns([said])
        notes[scope] = of(memory, scope).save_note(f"a note about the harbour: note{number}")
    return notes


def assert_alone(text: str, number: int) -> None:
    for other in range(len(SCOPES)):
        for word in (f"word{other}", f"note{other}"):
            assert (word in text) == (other == number), text


def test_it_keeps_scopes_and_answers_several_recalls_at_once(memory: LocalMemory) -> None:
    assert isinstance(memory, KeepsScopes)
    assert isinstance(memory.for_scope(ANN), ConcurrentRecall)


def test_recall_and_search_find_what_is_the_scopes_own(memory: LocalMemory) -> None:
    fill(memory)
    for number, scope in enumerate(SCOPES):
        assert_alone(of(memory, scope).prefetch("the harbour", session_id="asking"), number)
        found = tool(memory, scope, "memory_search", query="the harbour", limit=50)["found"]
        assert_alone(json.dumps(found), number)
    everything = json.dumps([each.text for each in memory.browse("the harbour", 50)])
    assert all(f"note{number}" in everything for number in range(len(SCOPES)))


def test_the_note_of_another_can_be_neither_changed_nor_forgotten(memory: LocalMemory) -> None:
    notes = fill(memory)
    for scope in SCOPES:
        for owner, note in notes.items():
            if owner != scope:
                assert "error" in tool(memory, scope, "memory_correct", id=note, text="mine now")
                assert "error" in tool(memory, scope, "memory_forget", id=note)
    for number, scope in enumerate(SCOPES):
        [turn_id] = [
            each["id"]
            for each in tool(memory, scope, "memory_search", query=f"word{number} harbour", limit=50)["found"]
            if each["speaker"] == "user"
        ]
        for other in SCOPES:
            if other != scope:
                assert "error" in tool(memory, other, "memory_forget", id=turn_id)
        assert tool(memory, scope, "memory_correct", id=notes[scope], text="changed harbour")
        assert tool(memory, scope, "memory_forget", id=turn_id) == {"forgotten": turn_id}


def test_a_session_of_one_scope_takes_no_turn_of_another(memory: LocalMemory) -> None:
    of(memory, ANN).sync_turns([turn(1, "hello")])
    for scope in ("", ROOM):
        with pytest.raises(Undeliverable):
            of(memory, scope).sync_turns([turn(2, "let me in")])
    assert [each.text for each in memory.search("let me in", scope=None)] == []


def test_the_owner_forgets_in_any_scope(memory: LocalMemory) -> None:
    notes = fill(memory)
    assert memory.forget(notes[ANN])
    memory.forget_selected(ForgetRequest("k", (("s2", "s2-t1"),)))
    of(memory, ROOM).forget_selected(ForgetRequest("k2", (("s2", "s2-t1"),)))
    left = [each.text for each in memory.browse("harbour", 50)]
    assert not any("note1" in each for each in left)


def test_a_small_memory_beside_a_large_one_is_found_by_meaning(open_memory: OpenMemory) -> None:
    """The nearest of everybody's passages are not taken first: they would all be the other's."""
    pytest.importorskip("numpy")
    from tests.providers.local.hashing_embedder import HashingEmbedder

    memory = open_memory(HashingEmbedder())
    crowd = [turn(number, "the red boat sails", session="many") for number in range(1200)]
    memory.sync_turns(crowd)
    of(memory, ANN).sync_turns([turn(1, "the red boat sails for Ann", session="anns")])
    while memory.build_vectors():
        pass
    for scope, session in ((ANN, "anns"), ("", "many")):
        found = memory.search("the red boat sails", 50, mode="vectors", scope=scope)
        assert {each.session_id for each in found} == {session}
    of(memory, ROOM).sync_turns([turn(1, "the red boat is ours", session="rooms")])
    memory.build_vectors()
    found = memory.search("the red boat sails", 5, mode="vectors", scope=ROOM)
    assert [each.session_id for each in found] == ["rooms"]
    assert memory.search("the red boat sails", 5, mode="vectors", scope="nobody") == []


def test_what_was_stored_before_there_were_scopes_is_the_owners(open_memory: OpenMemory) -> None:
    open_memory(None).sync_turns([turn(1, "an old word")])
    memory = open_memory(None)
    assert "an old word" in memory.prefetch("old word", session_id="asking")
    assert of(memory, ANN).prefetch("old word", session_id="asking") == ""


@pytest.mark.slow
@pytest.mark.skipif(bool(missing_packages()), reason="the extra embeddings is not installed")
def test_one_worker_answers_for_all_scopes(path: Path) -> None:
    memory = LocalMemory(path, clock=SystemClock())
    try:
        fill(memory)
        until(lambda: memory.describe().without_vector == 0)
        until(lambda: not memory.begin_prefetch("the harbour", session_id="asking").result(DEADLINE).note)
        for number, scope in enumerate(SCOPES):
            assert_alone(recalled_whole(of(memory, scope)), number)
            texts = [each.text for each in of(memory, scope).search("a port", 50)]
            assert_alone(json.dumps(texts), number)
        assert "process" in memory.describe().worker
    finally:
        memory.shutdown()
