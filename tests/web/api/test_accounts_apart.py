"""Two accounts can't read, search, interrupt, remember or export each other, through any entrance."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import pytest
from starlette.routing import BaseRoute

from holdfast.sessions import SessionDB
from holdfast.sessions.contract import Transaction
from holdfast.sessions.moving.moved_tables import TABLES
from holdfast.web.access import ACCESS, OWNED, Access
from holdfast.web.app import PAGE, build_app
from holdfast.web.page_files import PageFiles
from tests.polling import pauses
from tests.web.api.account_fixtures import (
    MARKER,
    SCRIPT,
    Account,
    Victim,
    a_server,
    account,
    made_victim,
)
from tests.web.api.api_server import Served, frames

pytestmark = pytest.mark.clause("N5", "G6", "S5")
Wait = Callable[[Awaitable[Any]], Any]

BODIES: dict[str, dict[str, Any]] = {
    "POST /api/sessions": {"message": {"text": "mine", "key": "same-key"}},
    "POST /v1/chat/completions": {"messages": [{"role": "user", "content": "hello"}]},
    "POST /v1/responses": {"input": "hello"},
    "POST /v1/embeddings": {"input": "hello"},
    "/send": {"text": "let me in", "key": "same-key"},
    "/interrupt": {},
    "/approvals/{ask_id}": {"decision": "yes"},
    "/answers/{ask_id}": {"text": "red"},
    "PUT /api/sessions/{session_id}/waiting/{inbox_id}": {"text": "changed"},
    "PATCH /api/sessions/{session_id}": {"title": "mine now", "pinned": True, "archived": True},
    "/truncate": {"before": 0},
    "/branch": {"before": 1},
    "/prompts/": {"text": "mine"},
    "PATCH /api/settings": {"changes": {}},
    "PUT /api/models/current": {"name": "other"},
    "/people/": {"role": "owner"},
}
QUERIES = {"GET /api/search": {"q": MARKER}, "GET /api/memory/search": {"q": MARKER}}
STREAMS = ("GET /api/events",)
NOT_COMPARED = ("audit_log", "user_tokens", "leases", "deleted_turns", "stored_sizes")


def routes(server: Served) -> list[tuple[str, str, BaseRoute]]:
    """Every method and path of the application, pages left out."""
    pages = PageFiles(PAGE).paths
    return [
        (method, path, route)
        for route in build_app(server.web).router.routes
        if (path := str(getattr(route, "path", ""))) not in pages
        for method in sorted(getattr(route, "methods", None) or ())
    ]


def body_for(method: str, path: str) -> dict[str, Any]:
    name = f"{method} {path}"
    return next(
        (body for part, body in BODIES.items() if part == name or (part[0] == "/" and part in path)), {}
    )


def filled(path: str, names: dict[str, str]) -> str:
    return re.sub(r"\{([^}]+)\}", lambda found: names[found[1]], path)


def compared(table: str, row: Sequence[object]) -> tuple[object, ...]:
    """A row without what a look beside the turns measures at any time, which stands last in an account's."""
    return tuple(row)[:-2] if table == "users" else tuple(row)


def of_victim(db: SessionDB, ids: Iterable[str]) -> dict[str, list[str]]:
    """All rows that name the victim or one of its conversations."""

    def read(tx: Transaction) -> dict[str, list[str]]:
        return {
            table.name: sorted(
                row
                for each in tx.connection.execute(f"select * from {table.name}")  # noqa: S608
                if any(name in (row := repr(compared(table.name, each))) for name in ids)
            )
            for table in TABLES
            if table.name not in NOT_COMPARED
        }

    return db._engine.read(read)  # noqa: SLF001 - the tables as a whole


async def walk(server: Served, intruder: Account, names: dict[str, str]) -> dict[str, tuple[int, str]]:
    """What every route answers to an account that names what `names` says."""
    said: dict[str, tuple[int, str]] = {}
    for method, path, _ in routes(server):
        name = f"{method} {path}"
        if name in STREAMS:
            continue
        more: dict[str, Any] = {} if method in ("GET", "HEAD", "DELETE") else {"json": body_for(method, path)}
        answer = await intruder.http.request(
            method, filled(path, names), params=QUERIES.get(name, {}), **more
        )
        said[name] = answer.status_code, f"{dict(answer.headers)} {answer.text}"
    return said


def anonymous(text: str, names: dict[str, str]) -> str:
    """An answer without what differs in any case: ids that were sent, of requests, and times."""
    for each in sorted(names.values(), key=len, reverse=True):
        if len(each) > 3:
            text = text.replace(each, "ID")
    text = re.sub(r"'(x-request-id|date|content-length)': '[^']*'", "", text)
    return re.sub(r'"request_id":"[^"]*"', "", text)


NOBODY = {
    "session_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "turn_id": "01ARZ3NDEKTSV4RRFFQ69G5FAW",
    "ask_id": "01ARZ3NDEKTSV4RRFFQ69G5FAX",
    "inbox_id": "987654",
    "response_id": "resp_01ARZ3NDEKTSV4RRFFQ69G5FAV_987654",
    "user_id": "01ARZ3NDEKTSV4RRFFQ69G5FAY",
}


def test_every_route_says_what_an_account_may_ask(in_memory: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with a_server(in_memory) as server:
            there = {f"{method} {path}" for method, path, _ in routes(server)}
            assert there - set(ACCESS) == set(), "say in web/access.py what an account may ask of these"
            assert set(ACCESS) - there == set(), "these are no routes (any more)"
            assert all("{session_id}" in each for each, access in ACCESS.items() if access in OWNED)
            named = {each for each in there if "{session_id}" in each}
            assert all(ACCESS[each] in OWNED for each in named)

    wait(scenario())


@pytest.mark.slow
@pytest.mark.parametrize("role", ["user", "admin", "guest"])
def test_no_route_tells_an_account_anything_of_another_or_changes_it(
    db: SessionDB,
    wait: Wait,
    role: Any,  # noqa: ANN401 - a role
) -> None:
    async def scenario() -> None:
        async with (
            a_server(db, *SCRIPT, *["for mallory"] * 20) as server,
            account(server, db, "Ada") as ada,
            account(server, db, "Mallory", role) as mallory,
        ):
            victim = await made_victim(db, ada)
            ids = (ada.user.id, victim.done, victim.asking, victim.response_session)
            before = of_victim(db, ids)
            assert MARKER in str(before), "there is something to be found"
            for session in (victim.done, victim.asking):
                names = {**victim.names, "session_id": session}
                nobody = {**names, **NOBODY}
                said, unknown = await walk(server, mallory, names), await walk(server, mallory, nobody)
                for name, (status, text) in said.items():
                    assert MARKER not in text, name
                    assert status < 500, (name, text)
                    if ACCESS[name] in OWNED:
                        assert status == 404, (name, text)
                        assert (status, anonymous(text, names)) == (
                            unknown[name][0],
                            anonymous(unknown[name][1], nobody),
                        ), name
                    if ACCESS[name] is Access.INSTALLATION:
                        assert status == 403, (name, text)
            assert of_victim(db, ids) == before

    wait(scenario())


def test_ids_keys_and_names_of_another_mean_nothing_in_ones_own_conversation(
    db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        async with (
            a_server(db, *SCRIPT, *["for mallory"] * 20) as server,
            account(server, db, "Ada") as ada,
            account(server, db, "Mallory") as mallory,
        ):
            victim = await made_victim(db, ada)
            before = of_victim(db, (victim.done, victim.asking, victim.response_session))
            for status, text in await tried(mallory, victim):
                assert MARKER not in text
                assert status < 500, text
            assert of_victim(db, (victim.done, victim.asking, victim.response_session)) == before
            found = await mallory.http.get("/api/sessions?limit=500")
            scopes = {each["scope"] for each in found.json()["items"]}
            assert scopes == {mallory.scope}
            # The victim still gets what it had.
            again = await ada.http.get(f"/v1/responses/{victim.response_id}")
            assert MARKER in again.text
            assert MARKER in (await ada.http.get("/api/search", params={"q": MARKER})).text
            assert MARKER in (await ada.http.get(f"/api/sessions/{victim.done}/export")).text

    wait(scenario())


async def tried(mallory: Account, victim: Victim) -> list[tuple[int, str]]:
    """What an account is told that names what is another's in its own conversation, and in queries."""
    own = (await mallory.http.post("/api/sessions", json={"key": victim.key})).json()["id"]
    there = f"/api/sessions/{own}"
    call = f"call_{victim.turn_id}_0"
    result = [
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": call, "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": call, "content": "x"},
    ]  # fmt: skip
    hello = {"messages": [{"role": "user", "content": "hello"}]}
    answers = [
        await mallory.http.get(f"{there}/turns/{victim.turn_id}"),
        await mallory.http.get(f"{there}/changes", params={"turn_id": victim.turn_id}),
        await mallory.http.post(f"{there}/undo-files", json={"turn_id": victim.turn_id}),
        await mallory.http.post(f"{there}/interrupt", json={"turn_id": victim.turn_id}),
        await mallory.http.post(f"{there}/approvals/{victim.ask_id}", json={"decision": "yes"}),
        await mallory.http.post(f"{there}/answers/{victim.ask_id}", json={"text": "red", "key": victim.key}),
        await mallory.http.put(f"{there}/waiting/{victim.inbox_id}", json={"text": "changed"}),
        await mallory.http.delete(f"{there}/waiting/{victim.inbox_id}"),
        await mallory.http.post(f"{there}/send", json={"text": "hi", "key": victim.key}),
        await mallory.http.post("/api/sessions", json={"message": {"text": "hi", "key": victim.key}}),
        await mallory.http.post("/api/sessions", json={"prev_session_id": victim.done}),
        await mallory.http.get("/api/search", params={"q": MARKER, "session": victim.done}),
        await mallory.http.get("/api/sessions", params={"folder": "x"}),
        await mallory.http.get("/api/usage", params={"by": "conversation"}),
        await mallory.http.post("/api/memory/forget", json={"session_id": victim.done, "key": victim.key}),
        await mallory.http.post("/api/memory/forget", json={"words": MARKER}),
        await mallory.http.post("/api/memory/forget", json={"after": 0}),
        await mallory.http.post("/api/memory/forget/preview", json={"person": "user"}),
        await mallory.http.post(
            "/v1/chat/completions", json=hello, headers={"X-Holdfast-Session": victim.done}
        ),
        await mallory.http.post("/v1/chat/completions", json={**hello, "conversation": victim.done}),
        await mallory.http.post("/v1/chat/completions", json={"messages": result}),
        await mallory.http.post(
            "/v1/responses", json={"input": "x", "previous_response_id": victim.response_id}
        ),
        await mallory.http.post("/v1/responses", json={"input": "x", "conversation": victim.asking}),
        await mallory.http.get(f"/v1/responses/resp_{own}_{victim.inbox_id}"),
        await mallory.http.get(f"/v1/responses/resp_{victim.asking}_{victim.inbox_id}"),
        await mallory.http.patch(there, json={"workspace": "/"}),
        await mallory.http.patch(there, json={"folder": "x"}),
    ]
    statuses = [each.status_code for each in answers]
    assert statuses[-2:] == [403, 403]
    assert statuses[10:12] == [404, 404]
    assert statuses[14] == 404
    assert statuses[15:18] == [403, 403, 403]
    assert [statuses[21], statuses[23], statuses[24]] == [400, 404, 404]
    return [(each.status_code, f"{dict(each.headers)} {each.text}") for each in answers]


def test_the_states_of_all_conversations_are_those_of_ones_own(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with (
            a_server(db, "one", "two", "three") as server,
            account(server, db, "Ada") as ada,
            account(server, db, "Ben") as ben,
            ben.http.stream("GET", "/api/events") as stream,
        ):
            assert stream.status_code == 200
            changes = frames(stream)
            first = await ada.http.post("/api/sessions", json={"message": {"text": "hi"}})
            await server.begin()
            own = await ben.http.post("/api/sessions", json={"message": {"text": "hi"}})
            told: list[str] = []
            async for change in changes:
                told.append(change["root_id"])
                if change["state"] == "idle":
                    break
            assert set(told) == {own.json()["id"]}
            assert first.json()["id"] not in told

    wait(scenario())


def test_two_accounts_and_the_owner_may_use_the_same_names_and_keys(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with (
            a_server(db, *["answer"] * 8) as server,
            account(server, db, "Ada") as ada,
            account(server, db, "Ben") as ben,
        ):
            begun, named = [], []
            for http in (ada.http, ben.http, server.http):
                for _ in range(2):
                    answer = await http.post("/api/sessions", json={"key": "k"})
                    begun.append(answer.json()["id"])
                    body = {"messages": [{"role": "user", "content": "hi"}]}
                    answer = await http.post(
                        "/v1/chat/completions", json=body, headers={"X-Holdfast-Session": "mine"}
                    )
                    assert answer.status_code == 200, answer.text
                    named.append(answer.headers["X-Holdfast-Session"])
            for made in (begun, named):
                assert made[0] == made[1]
                assert len(set(made)) == 3
            assert named[-1] == "mine"
            assert [each["content"] for each in db.get_messages(named[0])] == ["hi", "answer"] * 2
            scopes = {each: session.scope for each in set(named) if (session := db.get_session(each))}
            assert scopes[named[0]] == ada.scope
            assert scopes["mine"] == ""

    wait(scenario())


async def remembered(of: Account) -> Any:  # noqa: ANN401 - an answer
    """What memory has for an account, once it has been told of the marker."""
    for pause in pauses():
        found = await of.http.get("/api/memory/search", params={"q": "x"})
        if MARKER in found.text:
            return found
        await asyncio.sleep(pause)  # noqa: TID251 - polls under a deadline
    raise AssertionError("pauses have no end")


def test_memory_and_usage_are_those_of_the_account(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with (
            a_server(db, *SCRIPT, "for ben") as server,
            account(server, db, "Ada") as ada,
            account(server, db, "Ben") as ben,
        ):
            await made_victim(db, ada)
            await ben.http.post("/api/sessions", json={"message": {"text": "hello"}})
            mine = await remembered(ada)
            assert MARKER in mine.text
            for http in (ben.http, server.http):
                assert MARKER not in (await http.get("/api/memory/search", params={"q": "x"})).text
            used = await ada.http.get("/api/usage")
            assert used.json()["total"]["requests"] >= 1
            rest = await ben.http.get("/api/usage", params={"by": "conversation"})
            assert MARKER not in rest.text
            everything = await server.http.get("/api/usage")
            assert everything.json()["total"]["requests"] >= used.json()["total"]["requests"]

    wait(scenario())


def test_the_owner_sees_every_conversation(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with a_server(db, *SCRIPT) as server, account(server, db, "Ada") as ada:
            victim = await made_victim(db, ada)
            listed = await server.http.get("/api/sessions")
            assert victim.done in [each["id"] for each in listed.json()["items"]]
            assert MARKER in (await server.http.get(f"/api/sessions/{victim.done}/messages")).text

    wait(scenario())
