"""Speaking over HTTP: a message is kept, its turn is shown, and what was said can be read."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import KeyRejected
from holdfast.sessions import SessionDB
from holdfast.testing import Call, Delay
from holdfast.tools.contract import ApprovalRequest, ToolContext
from tests.agent.agent_fixtures import Hold, a_tool, until
from tests.web.api.api_server import served

Wait = Callable[[Awaitable[Any]], Any]


def test_a_message_is_answered_and_both_are_on_record(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db, ["hello there"]) as server:
            session = await server.begin()
            async with server.events(session) as events:
                snapshot = await anext(events)
                accepted = await server.send(session, "hi")
                shown = [snapshot]
                while shown[-1]["kind"] != "TurnCompleted":
                    shown.append(await anext(events))
            assert accepted["session_id"] == session
            assert snapshot["kind"] == "SessionSnapshot"
            assert "".join(each["text"] for each in shown if each["kind"] == "TextDelta") == "hello there"
            assert [each["id"] for each in shown] == [str(each["number"]) for each in shown]
            assert all(each["at"] > 1_700_000_000_000 for each in shown)
            assert await server.said(session) == ["hi", "hello there"]

    wait(scenario())


def test_a_reader_who_comes_late_is_told_why_the_last_turn_failed(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db, [KeyRejected("a model", "wrong key"), "better now"]) as server:
            session = await server.begin()

            async def failed(of: str = session) -> object:
                return (await server.http.get(f"/api/sessions/{of}")).json()["failed"]

            assert await failed() is None
            await server.send(session, "hi")
            event = (await server.until(session, "TurnFailed", after=0))[-1]
            assert "wrong key" in event["error"]
            assert await failed() == {"turn_id": event["turn_id"], "error": event["error"]}
            branch = await server.http.post(f"/api/sessions/{session}/branch")
            assert await failed(branch.json()["id"]) is None
            await server.send(session, "once more")
            await server.until(session, "TurnCompleted", after=event["number"])
            assert await failed() is None

    wait(scenario())


@pytest.mark.clause("I1")
def test_a_message_with_the_same_key_is_stored_once(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db, ["one", "two"]) as server:
            session = await server.begin()
            first = await server.send(session, "hi", key="k")
            again = await server.send(session, "hi", key="k")
            await server.until(session, "TurnCompleted", after=0)
            assert first["inbox_id"] == again["inbox_id"]
            assert await server.said(session) == ["hi", "one"]

    wait(scenario())


@pytest.mark.clause("I2")
def test_an_interrupt_keeps_the_partial_text_and_its_message_comes_next(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db, [["half an answer ", Delay(60)], "the next"]) as server:
            session = await server.begin()
            await server.send(session, "first")
            await server.until(session, "TextDelta", after=0)
            answer = await server.http.post(f"/api/sessions/{session}/interrupt", json={"text": "second"})
            assert answer.json() == {"interrupted": True}
            await server.until(session, "TurnCompleted", after=0)
            said = await server.said(session)
            assert said[0] == "first"
            assert said[1].startswith("half an answer")
            assert said[-2:] == ["second", "the next"]

    wait(scenario())


@pytest.mark.clause("I2", "I4")
def test_an_interrupt_that_is_sent_again_with_its_key_stores_one_message_and_stops_nothing_more(
    db: SessionDB, wait: Wait
) -> None:
    hold = Hold()

    async def scenario() -> None:
        async with served(db, [["half ", Delay(60)], hold]) as server:
            session = await server.begin()
            await server.send(session, "first")
            await server.until(session, "TextDelta", after=0)
            place, body = f"/api/sessions/{session}/interrupt", {"text": "second", "key": "k"}
            first = await server.http.post(place, json=body)
            await hold.reached.wait()
            # Its own turn runs by now: sent again, it must not stop that one.
            again = await server.http.post(place, json=body)
            assert (first.json(), again.json()) == ({"interrupted": True}, {"interrupted": True})
            hold.opened.set()
            await server.until(session, "TurnCompleted", after=0)
            assert (await server.said(session))[-2:] == ["second", "held"]
            assert (await server.said(session)).count("second") == 1

    wait(scenario())


@pytest.mark.clause("I4")
def test_an_interrupt_of_nothing_that_is_sent_again_does_not_stop_its_own_turn(
    db: SessionDB, wait: Wait
) -> None:
    hold = Hold()

    async def scenario() -> None:
        async with served(db, [hold]) as server:
            session = await server.begin()
            place, body = f"/api/sessions/{session}/interrupt", {"text": "only", "key": "k"}
            assert (await server.http.post(place, json=body)).json() == {"interrupted": False}
            await hold.reached.wait()
            assert (await server.http.post(place, json=body)).json() == {"interrupted": False}
            hold.opened.set()
            await server.until(session, "TurnCompleted", after=0)
            assert await server.said(session) == ["only", "held"]

    wait(scenario())


def test_what_waits_can_be_changed_and_taken_back_until_it_is_taken(db: SessionDB, wait: Wait) -> None:
    hold = Hold()

    async def scenario() -> None:
        async with served(db, [hold, "to the changed one"]) as server:
            session = await server.begin()
            await server.send(session, "first")
            await hold.reached.wait()
            second = (await server.send(session, "second"))["inbox_id"]
            third = (await server.send(session, "third"))["inbox_id"]
            place = f"/api/sessions/{session}/waiting"
            changed = await server.http.put(f"{place}/{second}", json={"text": "changed"})
            assert changed.json()["message"]["content"] == "changed"
            assert (await server.http.delete(f"{place}/{third}")).status_code == 204
            gone = await server.http.delete(f"{place}/{third}")
            assert (gone.status_code, gone.json()["reason"]) == (409, "NotWaiting")
            hold.opened.set()
            await until(lambda: _answers(db, session) == 2)
            assert await server.said(session) == ["first", "held", "changed", "to the changed one"]

    wait(scenario())


def _answers(db: SessionDB, session: str) -> int:
    return sum(each["role"] == "assistant" for each in db.get_messages(session))


def test_an_approval_is_shown_and_decided(db: SessionDB, wait: Wait) -> None:
    async def run(context: ToolContext, _: dict[str, Any]) -> str:
        request = ApprovalRequest(kind="command", subject="rm -rf build", reason="it deletes files")
        return "done" if await context.person.approve(request) else "refused"

    async def scenario() -> None:
        async with served(db, [Call("risky"), "finished"], tools=[a_tool("risky", run)]) as server:
            session = await server.begin()
            async with server.events(session) as events:
                await anext(events)
                await server.send(session, "clean up")
                async for event in events:
                    if event["kind"] == "ApprovalAsked":
                        detail = (await server.http.get(f"/api/sessions/{session}")).json()
                        assert detail["asking"] == 1
                        assert detail["asks"][0]["subject"] == "rm -rf build"
                        place = f"/api/sessions/{session}/approvals/{event['ask_id']}"
                        decided = await server.http.post(place, json={"decision": "yes"})
                        assert decided.json() == {"counted": True}
                        late = await server.http.post(place, json={"decision": "yes"})
                        assert late.json() == {"counted": False}
                    if event["kind"] == "TurnCompleted":
                        break
            assert "done" in str(db.get_messages(session))

    wait(scenario())


@pytest.mark.parametrize(
    ("command", "decisions"), [("rm -rf build", ["yes", "no"]), ("make build", ["yes", "always", "no"])]
)
def test_always_is_offered_only_where_it_has_an_effect(
    db: SessionDB, wait: Wait, command: str, decisions: list[str]
) -> None:
    async def run(context: ToolContext, _: dict[str, Any]) -> str:
        return str(await context.person.approve(ApprovalRequest(kind="command", subject=command)))

    async def scenario() -> None:
        async with served(db, [Call("risky"), "finished"], tools=[a_tool("risky", run)]) as server:
            session = await server.begin()
            async with server.events(session) as events:
                await anext(events)
                await server.send(session, "go")
                async for event in events:
                    if event["kind"] == "ApprovalAsked":
                        assert event["decisions"] == decisions
                        detail = (await server.http.get(f"/api/sessions/{session}")).json()
                        assert detail["asks"][0]["decisions"] == decisions
                        place = f"/api/sessions/{session}/approvals/{event['ask_id']}"
                        told = await server.http.post(place, json={"decision": "always", "text": "rm *"})
                        if "always" in decisions:
                            assert told.json() == {"counted": True}
                            continue
                        assert told.status_code == 422
                        assert "asked about each time" in told.text
                        detail = (await server.http.get(f"/api/sessions/{session}")).json()
                        assert detail["asking"] == 1, "the question is still open"
                        assert (await server.http.post(place, json={"decision": "no"})).json()["counted"]
                    if event["kind"] == "TurnCompleted":
                        break

    wait(scenario())


def test_messages_are_read_in_pages_in_both_directions(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db) as server:
            session = await server.begin()
            db.sessions.append_messages(
                session, [{"role": "user", "content": str(each)} for each in range(10)]
            )

            async def page(**params: int) -> tuple[list[int], bool]:
                answer = await server.http.get(f"/api/sessions/{session}/messages", params=params)
                found = answer.json()
                return [each["seq"] for each in found["items"]], found["has_more"]

            assert await page(limit=3) == ([7, 8, 9], True)
            assert await page(limit=3, before=7) == ([4, 5, 6], True)
            assert await page(limit=5, before=4) == ([0, 1, 2, 3], False)
            assert await page(limit=3, after=6) == ([7, 8, 9], False)
            assert await page(limit=2, after=-1) == ([0, 1], True)

    wait(scenario())


def test_the_file_that_an_approval_would_overwrite_is_shown_while_it_is_asked(
    db: SessionDB, wait: Wait, tmp_path: Path
) -> None:
    there, own = tmp_path / "plan.md", tmp_path / "own.md"
    there.write_text("first\nthen\n")
    own.write_text("secret")
    seen: list[object] = []

    async def run(context: ToolContext, _: dict[str, Any]) -> str:
        for request in (
            ApprovalRequest(kind="write", subject=str(there)),
            ApprovalRequest(kind="write", subject=str(tmp_path / "new.md")),
            ApprovalRequest(kind="write", subject=str(own), own_files=True),
            ApprovalRequest(kind="read", subject=str(there)),
        ):
            await context.person.approve(request)
        return "done"

    async def scenario() -> None:
        async with served(db, [Call("risky"), "finished"], tools=[a_tool("risky", run)]) as server:
            session = await server.begin()
            async with server.events(session) as events:
                await anext(events)
                await server.send(session, "write")
                async for event in events:
                    if event["kind"] == "ApprovalAsked":
                        place = f"/api/sessions/{session}/approvals/{event['ask_id']}"
                        seen.append((await server.http.get(f"{place}/before")).json()["text"])
                        await server.http.post(place, json={"decision": "no"})
                        assert (await server.http.get(f"{place}/before")).json()["text"] is None
                    if event["kind"] == "TurnCompleted":
                        break

    wait(scenario())
    assert seen == ["first\nthen\n", None, None, None]
