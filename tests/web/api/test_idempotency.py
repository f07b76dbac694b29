"""A client that heard no answer sends its request again: nothing is stored or done twice."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.sessions import SessionDB
from holdfast.testing import Call
from holdfast.tools.contract import ToolContext
from tests.agent.agent_fixtures import Hold, a_tool, until
from tests.web.api.api_server import Served, served

Wait = Callable[[Awaitable[Any]], Any]


async def twice(server: Served, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request, which must be the same when it is sent again."""
    first = await server.http.post(path, json=body)
    again = await server.http.post(path, json=body)
    assert (first.status_code, again.status_code) in ((201, 201), (202, 202), (200, 200)), again.text
    same = ("id", "session_id", "counted", "interrupted")
    assert [first.json().get(each) for each in same] == [again.json().get(each) for each in same]
    answer: dict[str, Any] = first.json()
    return answer


def conversations(db: SessionDB) -> int:
    return len(db.conversations.list(limit=None))


@pytest.mark.clause("I1")
def test_what_makes_a_conversation_makes_one_for_each_key(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db, ["one", "again"]) as server:
            session = (await twice(server, "/api/sessions", {"key": "k"}))["id"]
            assert conversations(db) == 1
            await server.send(session, "hello")
            await server.until(session, "TurnCompleted", after=0)
            path = f"/api/sessions/{session}"
            branch = (await twice(server, f"{path}/branch", {"key": "k"}))["id"]
            cut = (await twice(server, f"{path}/truncate", {"before": 0, "key": "k"}))["id"]
            assert len({session, branch, cut}) == 3
            assert conversations(db) == 3
            other = await server.http.post(f"{path}/branch", json={"key": "another"})
            assert other.json()["id"] not in (session, branch)
            before = conversations(db)
            retried = (await twice(server, f"{path}/retry", {"key": "k"}))["session_id"]
            assert conversations(db) == before + 1
            await server.until(retried, "TurnCompleted", after=0)
            assert await server.said(retried) == ["hello", "again"]
            cleared = (await twice(server, f"{path}/clear", {"key": "k"}))["id"]
            assert conversations(db) == before + 2
            assert cleared != session

    wait(scenario())


@pytest.mark.clause("I5")
def test_an_answer_that_is_sent_again_with_its_key_is_no_message_beside(db: SessionDB, wait: Wait) -> None:
    async def ask(context: ToolContext, _: dict[str, Any]) -> str:
        return f"the person says {await context.person.answer('which?')}"

    async def scenario() -> None:
        script = [Call("ask", {}), "done", "to the late one"]
        async with served(db, script, tools=[a_tool("ask", ask, timeout=None)]) as server:
            session = await server.begin()
            await server.send(session, "go")
            [*_, asked] = await server.until(session, "QuestionAsked", after=0)
            path = f"/api/sessions/{session}/answers/{asked['ask_id']}"
            assert await twice(server, path, {"text": "blue", "key": "k"}) == {"counted": True}
            await server.until(session, "TurnCompleted", after=0)
            # The ask is gone with its turn, and this very answer is still known.
            assert await twice(server, path, {"text": "blue", "key": "k"}) == {"counted": True}
            # Another one comes too late: it is the next message, once.
            assert await twice(server, path, {"text": "green", "key": "late"}) == {"counted": False}
            await until(lambda: db.get_messages(session)[-1]["content"] == "to the late one")
            said = await server.said(session)
            assert [said.count(word) for word in ("blue", "green")] == [0, 1]

    wait(scenario())


@pytest.mark.clause("I4")
def test_an_interrupt_that_names_its_turn_stops_no_later_one(db: SessionDB, wait: Wait) -> None:
    first, second = Hold(), Hold()

    async def scenario() -> None:
        async with served(db, [first, second]) as server:
            session = await server.begin()
            await server.send(session, "one")
            await first.reached.wait()
            turn = (await server.http.get(f"/api/sessions/{session}")).json()["turn_id"]
            await server.send(session, "two")
            path, body = f"/api/sessions/{session}/interrupt", {"turn_id": turn}
            assert (await server.http.post(path, json=body)).json() == {"interrupted": True}
            await second.reached.wait()
            assert (await server.http.post(path, json=body)).json() == {"interrupted": False}
            second.opened.set()
            await server.until(session, "TurnCompleted", after=0)
            assert (await server.said(session))[-2:] == ["two", "held"]

    wait(scenario())


@pytest.mark.clause("I1")
def test_the_key_of_a_new_session_is_that_of_its_message_when_this_has_none(
    db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        async with served(db, ["one"]) as server:
            await twice(server, "/api/sessions", {"key": "k", "message": {"text": "hello"}})
            assert conversations(db) == 1
            other = await server.http.post("/api/sessions", json={"key": "k", "message": {"text": "bye"}})
            assert (other.status_code, other.json()["reason"]) == (409, "KeyUsed")
            assert conversations(db) == 1

    wait(scenario())


@pytest.mark.clause("I1")
@pytest.mark.parametrize("first", ["send", "interrupt"])
@pytest.mark.parametrize("second", ["send", "interrupt"])
def test_a_key_that_was_used_for_other_words_is_refused(
    db: SessionDB, wait: Wait, first: str, second: str
) -> None:
    async def scenario() -> None:
        async with served(db, ["one"]) as server:
            here = f"/api/sessions/{await server.begin()}"
            sent = await server.http.post(f"{here}/{first}", json={"text": "yes", "key": "k"})
            again = await server.http.post(f"{here}/{second}", json={"text": "yes", "key": "k"})
            assert (sent.is_success, again.is_success) == (True, True)
            other = await server.http.post(f"{here}/{second}", json={"text": "no", "key": "k"})
            assert (other.status_code, other.json()["reason"]) == (409, "KeyUsed")

    wait(scenario())


@pytest.mark.clause("I1")
def test_a_message_that_was_changed_while_it_waited_is_no_other_message_of_its_key(
    db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        first = Hold("one")
        async with served(db, [first, "two"]) as server:
            session = await server.begin()
            here = f"/api/sessions/{session}"
            await server.http.post(f"{here}/send", json={"text": "first"})
            await first.reached.wait()
            second = {"text": "second", "key": "k"}
            waiting = (await server.http.post(f"{here}/send", json=second)).json()["inbox_id"]
            changed = await server.http.put(f"{here}/waiting/{waiting}", json={"text": "second, changed"})
            assert changed.is_success, changed.text
            again = await server.http.post(f"{here}/send", json=second)
            assert (again.status_code, again.json()["inbox_id"]) == (202, waiting), again.text
            other = await server.http.post(f"{here}/send", json={"text": "another", "key": "k"})
            assert (other.status_code, other.json()["reason"]) == (409, "KeyUsed")
            first.opened.set()
            await until(lambda: len(db.get_messages(session)) == 4)
            assert (await server.said(session))[-2:] == ["second, changed", "two"]

    wait(scenario())


@pytest.mark.clause("I1")
def test_an_undo_that_is_sent_again_undoes_once(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db, ["one", "two"]) as server:
            session = await server.begin()
            await server.send(session, "first")
            await until(lambda: len(db.get_messages(session)) == 2)
            await server.send(session, "second")
            await until(lambda: len(db.get_messages(session)) == 4)
            body = {"files": True, "key": "k"}
            answers = [await server.http.post(f"/api/sessions/{session}/undo", json=body) for _ in range(3)]
            assert {each.status_code for each in answers} == {201}
            assert len({each.json()["session"]["id"] for each in answers}) == 1
            assert await server.said(answers[0].json()["session"]["id"]) == ["first", "one"]
            assert conversations(db) == 2

    wait(scenario())
