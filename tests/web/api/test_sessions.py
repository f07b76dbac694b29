"""Conversations over HTTP: listed, changed, moved, looked at; and memory, search and health beside them."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from holdfast.core.clock import SystemClock
from holdfast.memory import MemoryManager
from holdfast.providers.local import LocalMemory
from holdfast.sessions import SessionDB
from holdfast.testing import Call
from holdfast.testing.providers import RecordingProvider
from holdfast.testing.scripted_model import Tokens
from holdfast.wiring.memory_setup import attach_object
from tests.agent.agent_fixtures import echo, until
from tests.memory.conftest import HereOnly
from tests.web.api.api_server import TOKEN, Served, served

Wait = Callable[[Awaitable[Any]], Any]


async def talked(server: Served, *words: str, **body: str) -> str:
    session = await server.begin(**body)
    for word in words:
        await server.send(session, word)
    await until(lambda: server.web.streams.open == 0)
    detail: dict[str, Any] = {}
    while detail.get("messages") != 2 * len(words) or detail["state"] != "idle":
        detail = (await server.http.get(f"/api/sessions/{session}")).json()
    return session


def test_conversations_are_listed_in_pages_and_set_in_order(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db) as server:
            ids = [await server.begin(title=f"number {number}") for number in range(5)]
            seen: list[str] = []
            for offset, following in ((0, 2), (2, 4), (4, None)):
                params = {"limit": 2, "offset": offset}
                page = (await server.http.get("/api/sessions", params=params)).json()
                seen += [each["id"] for each in page["items"]]
                assert page["next_offset"] == following
            assert sorted(seen) == sorted(ids)
            changed = await server.http.patch(
                f"/api/sessions/{ids[0]}", json={"title": "first", "pinned": True}
            )
            assert (changed.json()["title"], changed.json()["pinned"]) == ("first", True)
            pinned = (await server.http.get("/api/sessions", params={"pinned": True})).json()["items"]
            assert [each["id"] for each in pinned] == [ids[0]]
            refused = await server.http.patch(f"/api/sessions/{ids[0]}", json={"tool_profile": "smal"})
            assert (refused.status_code, "small, standard, all" in refused.text) == (422, True)
            await server.http.patch(f"/api/sessions/{ids[0]}", json={"tool_profile": "small"})
            chosen = (await server.http.get(f"/api/sessions/{ids[0]}")).json()["tool_profile"]
            assert (chosen["name"], chosen["reason"]) == ("small", "chosen for this conversation")
            await server.http.patch(f"/api/sessions/{ids[1]}", json={"archived": True})
            shown = (await server.http.get("/api/sessions")).json()["items"]
            assert ids[1] not in [each["id"] for each in shown]
            assert (await server.http.delete(f"/api/sessions/{ids[2]}")).status_code == 204
            gone = await server.http.get(f"/api/sessions/{ids[2]}")
            assert (gone.status_code, gone.json()["reason"]) == (404, "SessionNotFound")

    wait(scenario())


@pytest.mark.clause("L11")
def test_a_new_session_names_the_one_before_whose_memory_is_then_committed(db: SessionDB, wait: Wait) -> None:
    provider = RecordingProvider("notes")
    memory = MemoryManager(db, drain_seconds=1.0)
    memory.add_provider(provider)

    async def scenario() -> None:
        async with served(db, ["hello"], memory=memory) as server:
            first = await talked(server, "hi")
            assert db.sessions.uncommitted() == [first]
            await server.begin(prev_session_id=first)
            await until(lambda: not db.sessions.uncommitted())

    wait(scenario())


def test_a_conversation_that_no_agent_knows_yet_is_measured(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db, ["word " * 4_000]) as server:
            session = await talked(server, "first")
            place = f"/api/sessions/{session}"
            warm = (await server.http.get(place)).json()["context_tokens"]
            assert warm > 5_000
            branch = (await server.http.post(f"{place}/branch")).json()["id"]
            cold = (await server.http.get(f"/api/sessions/{branch}")).json()
            assert cold["context_tokens"] == warm
            seen = (await server.http.get(f"/api/sessions/{branch}/context")).json()
            assert seen["tokens"] == warm, "the meter and the panel agree"

    wait(scenario())


def test_a_conversation_is_branched_truncated_exported_and_imported(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db, ["one", "two", "again"]) as server:
            session = await talked(server, "first", "second")
            place = f"/api/sessions/{session}"
            branch = (await server.http.post(f"{place}/branch", json={"before": 2})).json()["id"]
            assert await server.said(branch) == ["first", "one"]
            cut = (await server.http.post(f"{place}/truncate", json={"before": 1})).json()["id"]
            assert await server.said(cut) == ["first"]
            exact = await server.http.post(f"{place}/branch", json={"before": 1, "exact": True})
            assert exact.status_code == 201
            exported = await server.http.get(f"{place}/export")
            assert "attachment" in exported.headers["content-disposition"]
            assert (await server.http.delete(f"{place}", params={"force": True})).status_code == 204
            imported = await server.http.post("/api/sessions/import", content=exported.content)
            assert imported.status_code == 201, imported.text
            assert await server.said(imported.json()["id"]) == ["first", "one", "second", "two"]
            retried = await server.http.post(f"/api/sessions/{imported.json()['id']}/retry")
            assert retried.status_code == 202
            fresh = retried.json()["session_id"]
            await server.until(fresh, "TurnCompleted", after=0)
            assert (await server.said(fresh))[-2:] == ["second", "again"]
            cleared = await server.http.post(f"/api/sessions/{fresh}/clear")
            assert (cleared.status_code, cleared.json()["messages"]) == (201, 0)

    wait(scenario())


def test_a_body_that_is_no_json_is_named_with_the_place(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db) as server:
            headers = {"Content-Type": "application/json"}
            refused = await server.http.post("/api/sessions", content=b'{"key": nonsense}', headers=headers)
            assert refused.status_code == 422, refused.text
            assert "the body is no JSON: Expecting value at character 8." in refused.json()["detail"]
            openai = await server.http.post("/v1/chat/completions", content=b"{", headers=headers)
            assert openai.status_code == 400, openai.text
            assert "the body is no JSON" in openai.json()["error"]["message"]

    wait(scenario())


@pytest.mark.skipif(which("curl") is None, reason="curl is not installed")
def test_the_documented_message_with_a_picture_is_taken(db: SessionDB, wait: Wait) -> None:
    text = (Path(__file__).parents[3] / "docs/http-api.md").read_text(encoding="utf-8")
    command = text.partition("is a list of parts:\n\n```sh\n")[2].partition("```")[0]

    async def scenario() -> None:
        async with served(db, ["A dot."]) as server:
            session = await server.begin()
            run = await asyncio.create_subprocess_exec(
                "sh",
                "-c",
                command.replace("http://127.0.0.1:8484", server.url),
                env={**os.environ, "SESSION": session, "TOKEN": TOKEN},
                stdout=asyncio.subprocess.PIPE,
            )
            out, _ = await run.communicate()
            assert "inbox_id" in out.decode(), out
            await server.until(session, "TurnCompleted", after=0)
            asked, answered = await server.said(session)
            assert [part["type"] for part in asked] == ["text", "image_url"]
            assert answered == "A dot."

    wait(scenario())


@pytest.mark.parametrize("content", [b"", b"no json\n", b"\xff\xff", b"[]\n{}\n", b'{"kind": "x"}\n'])
def test_what_is_no_export_is_not_imported(db: SessionDB, wait: Wait, content: bytes) -> None:
    async def scenario() -> None:
        async with served(db) as server:
            refused = await server.http.post("/api/sessions/import", content=content)
            assert refused.status_code == 422, refused.text
            assert (await server.http.get("/api/sessions")).json()["items"] == []

    wait(scenario())


def test_messages_are_found_and_marked(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db, ["the harbour is \x01calm\x02"]) as server:
            session = await talked(server, "how is the harbour today?")
            found = (await server.http.get("/api/search", params={"q": "harbour"})).json()["items"]
            assert {each["root_id"] for each in found} == {session}
            assert all("\x01harbour\x02" in each["snippet"].lower() for each in found)
            assert all(each["snippet"].count("\x01") == 1 for each in found)
            none = await server.http.get("/api/search", params={"q": "mountain", "session": session})
            assert none.json()["items"] == []

    wait(scenario())


def test_a_turn_and_a_context_are_shown_as_people_look_at_them(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        script = [[Call("echo", {}), Tokens(5, 1)], ["done", Tokens(8, 2)]]
        async with served(db, script, tools=[echo()]) as server:
            session = await server.begin()
            await server.send(session, "do it")
            shown = await server.until(session, "TurnCompleted", after=0)
            turn = shown[-1]["turn_id"]
            seen = (await server.http.get(f"/api/sessions/{session}/turns/{turn}")).json()
            assert (seen["state"], seen["input_tokens"]) == ("completed", 13)
            assert {"model", "tool"} <= {span["kind"] for span in seen["spans"]}
            other = await server.begin()
            assert (await server.http.get(f"/api/sessions/{other}/turns/{turn}")).status_code == 404
            context = (await server.http.get(f"/api/sessions/{session}/context")).json()
            assert context["window"] > context["tokens"] > 0
            assert "person" in {part["name"] for part in context["parts"]}

    wait(scenario())


def test_a_memory_in_files_of_one_machine_is_marked_where_the_store_serves_several(
    db: SessionDB, wait: Wait
) -> None:
    memory = MemoryManager(db, drain_seconds=1.0)
    attach_object(memory, HereOnly("files"), None)

    async def scenario() -> None:
        async with served(db, memory=memory) as server:
            [provider] = (await server.http.get("/api/memory")).json()["providers"]
            assert provider["only_here"] is db.is_shared

    wait(scenario())


def test_memory_is_shown_searched_forgotten_and_what_was_set_aside_decided(db: SessionDB, wait: Wait) -> None:
    provider = RecordingProvider("notes")
    memory = MemoryManager(db, drain_seconds=1.0)
    memory.add_provider(provider)

    async def scenario() -> None:
        async with served(db, ["hello"], memory=memory) as server:
            await talked(server, "hi")
            await until(lambda: not db.outbox.list("owed") and not db.outbox.list("claimed"))
            [lane] = (await server.http.get("/api/memory")).json()["providers"]
            assert (lane["name"], lane["state"], lane["owed"]) == ("notes", "working", 0)
            assert (await server.http.get("/api/memory/search", params={"q": "hi"})).status_code == 200
            unknown = await server.http.get("/api/memory/search", params={"q": "hi", "provider": "no"})
            assert unknown.status_code == 422
            forget = {"provider": "notes", "id": "1"}
            assert (await server.http.post("/api/memory/forget", json=forget)).status_code == 422
            assert (await server.http.post("/api/memory/forget", json={})).status_code == 422
            assert (await server.http.get("/api/memory/forgotten")).json()["items"] == []
            assert (await server.http.post("/api/memory/forgotten/7/retry")).status_code == 422
            assert (await server.http.get("/api/memory/set-aside")).json()["items"] == []
            missing = await server.http.post("/api/memory/set-aside/7/retry")
            assert (missing.status_code, missing.json()["reason"]) == (404, "DeliveryNotFound")

    wait(scenario())


def test_memory_forgets_a_conversation_by_itself_and_with_its_deletion(
    db: SessionDB, wait: Wait, tmp_path: Path
) -> None:
    memory = MemoryManager(db, drain_seconds=1.0)
    memory.add_provider(LocalMemory(tmp_path / "memory.db", clock=SystemClock(), embedder=None))
    memory.add_provider(RecordingProvider("notes"))

    async def scenario() -> None:
        async with served(db, ["a fine heron", "a fine otter"], memory=memory) as server:
            first, second = await talked(server, "my heron"), await talked(server, "my otter")
            await until(lambda: not db.outbox.list("owed") and not db.outbox.list("claimed"))
            body = {"session_id": first, "key": "k"}
            shown = (await server.http.post("/api/memory/forget/preview", json={"session_id": first})).json()
            assert (shown["kind"], shown["turns"]) == ("conversation", 1)
            done = (await server.http.post("/api/memory/forget", json=body)).json()
            states = {each["provider"]: each["state"] for each in done["providers"]}
            assert states == {"local": "done", "notes": "unable"}
            assert (await server.http.post("/api/memory/forget", json=body)).json()["id"] == done["id"]
            assert (await server.http.get(f"/api/sessions/{first}")).status_code == 200
            deleting = {"forget_memory": "true"}
            assert (await server.http.delete(f"/api/sessions/{second}", params=deleting)).status_code == 204
            await until(lambda: all(each.state != "owed" for each in db.forgettings.list()[0].providers))
            found = (await server.http.get("/api/memory/search", params={"q": "heron otter"})).json()
            assert [each for each in found["items"] if each["provider"] == "local"] == []
            listed = (await server.http.get("/api/memory/forgotten", params={"limit": 1})).json()
            assert [each["kind"] for each in listed["items"]] == ["conversation"]
            assert listed["next_before"] == listed["items"][0]["id"]
            assert "otter" not in str(listed)

    wait(scenario())


def test_health_readiness_status_and_metrics_are_told(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db, [["hello", Tokens(7, 2)]]) as server:
            await talked(server, "hi")
            assert (await server.http.get("/readyz")).json() == {"status": "ready"}
            status = (await server.http.get("/api/status")).json()
            assert status["running"] == []
            assert status["sandbox"]
            assert (status["workspace"], status["approval"]) == ("none", "ask")
            told = (await server.http.get("/metrics")).text
            assert 'holdfast_turns_total{end="completed"} 1.0' in told
            assert 'holdfast_tokens_total{kind="input"} 7.0' in told
            assert "holdfast_turn_first_token_seconds_count 1.0" in told
            assert 'route="/api/sessions/{session_id}/send",status="202"' in told
            await server.http.get("/some/where/else")
            assert "/some/where" not in (await server.http.get("/metrics")).text
            server.web.streams.close()
            assert (await server.http.get("/readyz")).status_code == 503

    wait(scenario())


def test_problems_name_the_reason_the_next_step_and_the_request(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db) as server:
            cases = [
                ("GET", "/nothing", 404),
                ("PUT", "/api/sessions", 405),
                ("GET", "/api/sessions?limit=0", 422),
                ("GET", "/api/sessions/none/messages", 404),
                ("POST", "/api/sessions/none/interrupt", 404),
                ("POST", "/api/sessions/none/resume", 404),
                ("GET", "/api/sessions/none/events", 404),
            ]
            for method, path, status in cases:
                given = {"X-Request-ID": "mine-1"}
                answer = await server.http.request(method, path, headers=given)
                assert (answer.status_code, answer.headers["x-request-id"]) == (status, "mine-1"), path
                problem = json.loads(answer.text)
                assert problem["request_id"] == "mine-1"
                assert all(problem[name] for name in ("type", "title", "detail", "reason", "next"))
            forged = await server.http.get("/nothing", headers={"X-Request-ID": "a b\tc" * 30})
            assert forged.headers["x-request-id"] != "a b\tc" * 30

    wait(scenario())


def test_a_message_is_taken_back_usage_is_told_and_a_file_is_sent_as_text(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db, [["hi", Tokens(10, 2)], "read"]) as server:
            session = await talked(server, "hello")
            here = f"/api/sessions/{session}"
            assert (await server.http.get(f"{here}/changes")).json() == {"items": []}
            unknown = await server.http.get(f"{here}/changes", params={"turn_id": "nothing"})
            assert (unknown.status_code, unknown.json()["reason"]) == (404, "TurnNotFound")
            used = (await server.http.get(f"{here}/usage")).json()
            assert (used["requests"], used["input_tokens"], used["cost"]) == (1, 10, None)
            detail = (await server.http.get(here)).json()
            assert (detail["usage"], detail["changed_turns"]) == (used, [])
            report = (await server.http.get("/api/usage", params={"by": "conversation"})).json()
            assert [each["title"] for each in report["groups"]] == ["hello"]
            undone = await server.http.post(f"{here}/undo", json={"files": True, "key": "k"})
            assert undone.status_code == 201
            assert (undone.json()["text"], undone.json()["files"]) == ("hello", [])
            fresh = undone.json()["session"]["id"]
            assert await server.said(fresh) == []
            assert (await server.http.post(f"{here}/undo-files")).json() == {"files": []}
            file = {"filename": "a.txt", "file_data": "data:text/plain;base64,aGFyYm91cg=="}
            content = [{"type": "text", "text": "read it"}, {"type": "file", "file": file}]
            sent = await server.http.post(f"/api/sessions/{fresh}/send", json={"content": content})
            assert sent.status_code == 202, sent.text
            while not (said := await server.said(fresh)):  # until its turn has opened
                pass
            [_, text] = said[0]
            assert text == {"type": "text", "text": "The file a.txt:\n<file>\nharbour\n</file>"}
            file["file_data"] = "data:text/plain;base64,%%%"
            refused = await server.http.post(f"/api/sessions/{fresh}/send", json={"content": content})
            assert (refused.status_code, "not base64" in refused.json()["detail"]) == (422, True)

    wait(scenario())
