"""The agent's question, its list, and its look into past conversations."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.errors import ToolArgumentsInvalid, ToolFailed
from holdfast.sessions import SessionDB
from holdfast.tools.ask_user import ask_user
from holdfast.tools.past_sessions import PastSessions
from holdfast.tools.todo import TodoList
from tests.tools.call_fixtures import Calls


def test_a_question_gets_the_persons_answer(calls: Calls) -> None:
    calls.person.reply = "blue"
    assert (
        calls.run(ask_user, question="Which?", choices=["red", "green"]).text == "The person answered: blue"
    )
    assert calls.person.questions == [("Which?", ("red", "green"))]
    assert ask_user.timeout is None


def test_a_question_without_an_answer_says_how_to_go_on(calls: Calls) -> None:
    result = calls.run(ask_user, question="Which?")
    assert not result.ok
    assert "No answer came in time" in result.text


def test_the_list_is_kept_and_every_result_carries_it(calls: Calls) -> None:
    todo = TodoList().tool()
    assert calls.run(todo).text == "the list is empty"
    items = [
        {"text": "read\nit", "state": "done"},
        {"text": "write", "state": "in_progress"},
        {"text": "test"},
    ]
    shown = "[x] read it\n[>] write\n[ ] test"
    assert calls.run(todo, items=items).text == shown
    assert calls.run(todo).text == shown
    assert calls.run(todo, items=[]).text == "the list is empty"


@pytest.mark.parametrize(
    "items",
    [
        [{"text": ""}],
        [{"text": "x", "state": "soon"}],
        [{"text": "x"}] * 101,
        [{"text": "x" * 501}],
        ["x"],
        "x",
    ],
)
def test_a_list_of_another_form_is_refused(calls: Calls, items: object) -> None:
    with pytest.raises(ToolArgumentsInvalid):
        calls.run(TodoList().tool(), items=items)


@pytest.fixture
def past(tmp_path: Path) -> Iterator[PastSessions]:
    with SessionDB(tmp_path / "db.sqlite") as db:
        fill(db)
        yield PastSessions(db)


def fill(db: SessionDB) -> None:
    db.create_session("old", source="cli", title="Harbour")
    for number in range(20):
        db.sessions.append_message("old", {"role": "user", "content": f"question {number}"})
    db.sessions.append_message(
        "old",
        {
            "role": "assistant",
            "content": "The lighthouse\n is   green",
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
        },
    )
    db.sessions.append_message(
        "old", {"role": "user", "content": [{"type": "text", "text": "part"}, {"type": "image"}]}
    )
    db.sessions.append_message("old", {"role": "user", "content": "y" * 10_000})


def test_past_conversations_are_searched_and_read_around_a_hit(calls: Calls, past: PastSessions) -> None:
    search, read = past.tools()
    found = calls.run(search, query="lighthouse").text
    assert found.startswith("session old (Harbour), number 20, ")
    assert ", assistant: The **lighthouse** is green" in found
    around = calls.run(read, session="old", number=20, around=2).text
    assert around.startswith("[18, ")
    assert "question 19" in around
    assert "(called look with {})" in around
    assert "part\n(image)" in around
    assert "6000 more characters" in around
    assert "question 17" not in around


@pytest.mark.parametrize("query", ["nothing-of-it", '"', "' OR 1=1", "\x00", "*"])
def test_any_query_is_a_query(calls: Calls, past: PastSessions, query: str) -> None:
    assert calls.run(past.tools()[0], query=query).text == "nothing found"


def test_a_session_or_a_number_that_is_not_there_is_told(calls: Calls, past: PastSessions) -> None:
    with pytest.raises(ToolFailed, match="no session 'x'"):
        calls.run(past.tools()[1], session="x")
    with pytest.raises(ToolFailed, match="no message 999"):
        calls.run(past.tools()[1], session="old", number=999)
