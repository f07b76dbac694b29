"""Conversations of other agents are imported once, whole, and what is left out is counted."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import ormsgpack
import pytest

from holdfast import SessionDB
from holdfast.core.errors import InvalidInput
from holdfast.sessions.foreign import (
    import_conversations,
    read_hermes,
    read_langgraph,
    read_openai_agents,
)

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
GRAPH = """
create table checkpoints (thread_id text, checkpoint_ns text default '', checkpoint_id text,
                          parent_checkpoint_id text, type text, checkpoint blob, metadata blob,
                          primary key (thread_id, checkpoint_ns, checkpoint_id));
create table writes (thread_id text, checkpoint_ns text default '', checkpoint_id text, task_id text,
                     idx integer, channel text, type text, value blob,
                     primary key (thread_id, checkpoint_ns, checkpoint_id, task_id, idx));
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


def packed(kind: str, content: object, **fields: object) -> ormsgpack.Ext:
    """A message as LangGraph packs it: the name of a class and its fields."""
    whole = {"type": kind, "content": content, **fields}
    return ormsgpack.Ext(5, ormsgpack.packb(["langchain_core.messages", kind, whole, "model_validate_json"]))


def checkpoint(
    thread: str, number: int, *messages: object, ns: str = "", metadata: str = "{}"
) -> dict[str, Any]:
    moment = f"2026-11-17T14:00:0{number}.500000+00:00"
    state = {
        "v": 4,
        "ts": moment,
        "channel_values": {"messages": list(messages), "other": ormsgpack.Ext(0, b"")},
    }
    names = {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": f"{number:04}"}
    return {**names, "type": "msgpack", "checkpoint": ormsgpack.packb(state), "metadata": metadata}


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    asked = packed("human", "Weather?", id="1")
    called = packed(
        "ai",
        [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I look."}, {"type": "tool_use"}],
        id="2",
        tool_calls=[{"name": "look", "args": {"at": "sky"}, "id": "c1"}],
    )
    result = packed("tool", "sun", id="3", tool_call_id="c1", name="look")
    gone = packed("ai", "a draft", id="0")
    rows = [
        checkpoint("m", 1, asked, gone),
        checkpoint("m", 2, asked, called, result),
        checkpoint("m", 3, asked, called, result, packed("ai", "Sun.", id="4")),
        checkpoint("m", 4, packed("ai", "a whisper", id="5"), ns="inner:1"),
        checkpoint("numbers", 5),
        checkpoint("odd", 6, packed("function", "x", id="6"), packed("human", "hi", id="7")),
        checkpoint("delta", 7, asked, metadata='{"counters_since_delta_snapshot": {"messages": [1, 1]}}'),
        {**checkpoint("secret", 8, asked), "type": "msgpack+aes"},
        {**checkpoint("broken", 9, asked), "checkpoint": b"\xc1"},
    ]
    pending = {"thread_id": "m", "checkpoint_id": "0003", "task_id": "t", "idx": 0, "channel": "messages"}
    value = ormsgpack.packb([packed("ai", "half a step")])
    writes = [
        {**pending, "type": "msgpack", "value": value},
        {**pending, "idx": 1, "type": "null", "value": b""},
    ]
    return made(tmp_path / "graph.db", GRAPH, {"checkpoints": rows, "writes": writes})


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


def test_the_newest_checkpoint_of_a_thread_becomes_a_conversation_and_the_rest_is_counted(
    db: SessionDB, graph: Path
) -> None:
    store = read_langgraph(graph)
    report = import_conversations(db, store)
    asked, called, result, answer = db.get_messages("langgraph-m")
    assert (asked["content"], answer["content"]) == ("Weather?", "Sun.")
    assert (called["content"], called["holdfast"]) == ("I look.", {"reasoning": "hm"})  # type: ignore[typeddict-item]
    assert called["tool_calls"] == [{**CALL, "function": {"name": "look", "arguments": '{"at": "sky"}'}}]
    assert (result["role"], result["tool_call_id"], result["content"]) == ("tool", "c1", "sun")
    # Each has the time of the first checkpoint that has it.
    times = [created for created, _ in store.conversations[0].sessions[0].messages]
    assert [(each - times[0]) // 1_000_000 for each in times] == [0, 1, 1, 2]
    assert (report.rows, report.imported, report.messages, report.empty) == (9, 2, 5, 1)
    assert report.left_out == {
        "they were taken out of their thread": 1,
        "they are of a subgraph": 1,
        "their step was not finished": 1,
        "messages of type function have no place in a chat": 1,
    }
    delta, secret, broken = report.refused
    assert "delta: its checkpoints hold only the changes of each step" in delta
    assert "secret: a checkpoint is stored as msgpack+aes, which can't be read here" in secret
    assert broken.startswith("broken: ")
    assert db.check() == []


def test_a_second_import_stores_nothing_twice_and_leaves_alone_what_went_on_here(
    db: SessionDB, hermes: Path, agents: Path, graph: Path
) -> None:
    for read, path in ((read_hermes, hermes), (read_openai_agents, agents), (read_langgraph, graph)):
        first = import_conversations(db, read(path))
        again = import_conversations(db, read(path))
        assert (again.imported, again.present, again.refused) == (0, first.imported, first.refused)


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
    with pytest.raises(InvalidInput, match="is no store of LangGraph: it has no table checkpoints, writes"):
        read_langgraph(agents)
    with pytest.raises(InvalidInput, match="there is no file"):
        read_openai_agents(tmp_path / "absent.db")
    assert agents.read_bytes() == before
