"""Conversations of other agents are imported once, whole, and what is left out is counted."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast import SessionDB
from holdfast.core.errors import InvalidInput
from holdfast.sessions.foreign import import_conversations, read_hermes, read_openai_agents

HERMES = """
create table sessions (id text primary key, source text not null, title text, parent_session_id text,
                       started_at real not null, ended_at real, end_reason text);
create table messages (id integer primary key, session_id text not null, role text not null, content text,
                       tool_call_id text, tool_calls text, tool_name text, timestamp real not null,
                       reasoning text, reasoning_content text, active integer not null default 1,
                       compacted integer not null default 0);
"""
AGENTS = """
create table agent_sessions (session_id text primary key, created_at timestamp, updated_at timestamp);
create table agent_messages (id integer primary key, session_id text not null, message_data text not null,
                             created_at timestamp);
"""
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
MOMENT = "2026-11-17 14:00:00"


def made(path: Path, script: str, rows: dict[str, list[dict[str, Any]]]) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
        for table, values in rows.items():
            for row in values:
                marks = ", ".join("?" * len(row))
                connection.execute(
                    f"insert into {table} ({', '.join(row)}) values ({marks})",  # noqa: S608 - of this test
                    list(row.values()),
                )
        connection.commit()
    return path


def said(session: str, role: str, content: str | None, at: float, **more: object) -> dict[str, Any]:
    return {"session_id": session, "role": role, "content": content, "timestamp": at, **more}


def item(session: str, **fields: object) -> dict[str, Any]:
    return {"session_id": session, "message_data": json.dumps(fields), "created_at": MOMENT}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "holdfast.db") as opened:
        yield opened


@pytest.fixture
def hermes(tmp_path: Path) -> Path:
    sessions = [
        {"id": "a", "source": "cli", "title": "Keys", "started_at": 1.0, "end_reason": "compression"},
        {"id": "b", "source": "cli", "parent_session_id": "a", "started_at": 5.0},
        {"id": "fork", "source": "cli", "parent_session_id": "a", "started_at": 6.0},
        {"id": "none", "source": "telegram", "started_at": 7.0},
    ]
    parts = [{"type": "text", "text": "and this?"}]
    messages = [
        said("a", "user", "Where is it?", 1.5),
        said("a", "assistant", "", 2.0, tool_calls=json.dumps([CALL]), reasoning="hm"),
        said("a", "tool", "under the mat", 3.0, tool_call_id="c1", tool_name="look"),
        said("a", "assistant", "Under the mat.", 4.0),
        said("b", "user", "old words", 5.1, active=0, compacted=1),
        said("b", "user", "The key is under the mat.", 5.2),
        said("b", "user", "\x00json:" + json.dumps(parts), 5.3),
        said("b", "user", "taken back", 5.4, active=0),
        said("fork", "user", "another child", 6.1),
    ]
    folder = tmp_path / "hermes"
    folder.mkdir()
    made(folder / "state.db", HERMES, {"sessions": sessions, "messages": messages})
    return folder


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    sessions = [{"session_id": each, "created_at": MOMENT, "updated_at": MOMENT} for each in ("m", "empty")]
    messages = [
        item("m", role="user", content=[{"type": "input_text", "text": "Weather?"}]),
        item("m", type="reasoning", summary=[{"type": "summary_text", "text": "ask"}]),
        item("m", type="function_call", call_id="c1", name="look", arguments="{}"),
        item("m", type="function_call", call_id="c2", name="look", arguments="{}"),
        item("m", type="function_call_output", call_id="c1", output="sun"),
        item("m", type="function_call_output", call_id="c2", output="rain"),
        item("m", type="message", role="assistant", content=[{"type": "output_text", "text": "Sun."}]),
        item("m", type="web_search_call", id="w"),
        item("gone", role="user", content="lost"),
    ]
    return made(tmp_path / "agents.db", AGENTS, {"agent_sessions": sessions, "agent_messages": messages})


def test_a_conversation_of_hermes_comes_with_its_continuation_and_its_summarised_words(
    db: SessionDB, hermes: Path
) -> None:
    report = import_conversations(db, read_hermes(hermes))
    assert (report.imported, report.messages, report.refused, report.wrong) == (2, 8, [], [])
    assert (report.rows, report.left_out, report.empty) == (9, {"the person took them back": 1}, 1)
    assert db.sessions.lineage("hermes-a") == ["hermes-a", "hermes-b-before-summary", "hermes-b"]
    asked, called, result, answer = db.get_messages("hermes-a")
    assert (asked["content"], answer["content"]) == ("Where is it?", "Under the mat.")
    assert called["tool_calls"] == [CALL]
    assert called["holdfast"] == {"reasoning": "hm"}  # type: ignore[typeddict-item]
    assert (result["role"], result["tool_call_id"]) == ("tool", "c1")
    assert db.get_messages("hermes-b")[1]["content"] == [{"type": "text", "text": "and this?"}]
    assert db.check() == []
    assert db.turns.unfinished() == []


def test_items_of_the_openai_agents_sdk_become_messages(db: SessionDB, agents: Path) -> None:
    report = import_conversations(db, read_openai_agents(agents))
    asked, called, sun, rain, answer = db.get_messages("openai-agents-m")
    assert (asked["content"], answer["content"]) == ("Weather?", "Sun.")
    assert [each["id"] for each in called["tool_calls"]] == ["c1", "c2"]
    assert (sun["tool_call_id"], rain["content"]) == ("c1", "rain")
    assert (report.imported, report.messages, report.empty) == (1, 5, 1)
    assert report.left_out == {
        "items of type web_search_call have no place in a chat": 1,
        "their session is not in the store": 1,
    }


def test_a_second_import_stores_nothing_twice_and_leaves_alone_what_went_on_here(
    db: SessionDB, hermes: Path, agents: Path
) -> None:
    for read, path in ((read_hermes, hermes), (read_openai_agents, agents)):
        first = import_conversations(db, read(path))
        again = import_conversations(db, read(path))
        assert (again.imported, again.present, again.refused) == (0, first.imported, [])


def test_a_conversation_that_changed_in_the_other_store_is_named_and_not_touched(
    db: SessionDB, hermes: Path
) -> None:
    import_conversations(db, read_hermes(hermes))
    with closing(sqlite3.connect(hermes / "state.db")) as connection:
        connection.execute("update messages set content = 'other words' where content = 'another child'")
        connection.commit()
    report = import_conversations(db, read_hermes(hermes))
    assert (report.imported, report.present) == (0, 1)
    assert "fork: an earlier import is in the store and differs" in report.refused[0]
    assert db.get_messages("hermes-fork")[0]["content"] == "another child"


def test_another_file_is_refused_and_nothing_is_written_to_it(tmp_path: Path, agents: Path) -> None:
    before = agents.read_bytes()
    with pytest.raises(InvalidInput, match="is no store of hermes-agent: it has no table sessions, messages"):
        read_hermes(agents)
    with pytest.raises(InvalidInput, match="there is no file"):
        read_openai_agents(tmp_path / "absent.db")
    assert agents.read_bytes() == before
