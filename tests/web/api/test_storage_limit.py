"""A full account is refused before anything is stored, and let on again once it has deleted something."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.sessions import SessionDB
from holdfast.sessions.user_records import UserChanges
from tests.agent.agent_fixtures import until
from tests.web.api.account_fixtures import a_server, account

pytestmark = pytest.mark.clause("N5", "S5")
Wait = Callable[[Awaitable[Any]], Any]

LIMIT = 50_000
LONG = "a" * LIMIT


def test_a_full_account_is_refused_and_deleting_makes_room(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with (
            a_server(db, "one", "two", "three") as server,
            account(server, db, "Root", "admin") as admin,
            account(server, db, "Ada") as ada,
            account(server, db, "Ben") as ben,
        ):
            path = f"/api/users/{ada.user.id}"
            limited = await admin.http.patch(path, json={"storage_limit": LIMIT})
            assert (limited.status_code, limited.json()["storage_limit"]) == (200, LIMIT)
            begun = await ada.http.post("/api/sessions", json={"message": {"text": LONG}})
            assert begun.status_code == 201, "what reaches the limit is still taken"
            session = begun.json()["id"]
            await until(lambda: len(db.get_messages(session)) == 2)
            await server.host.accounts.measure()
            found = next(
                each
                for each in (await admin.http.get("/api/users")).json()["items"]
                if each["id"] == ada.user.id
            )
            assert found["storage_used"] >= LIMIT
            db.users.issue_token(ada.user.id, "so that the account is read anew")
            await until_full(ada.http)
            for where, body in (
                (f"/api/sessions/{session}/send", {"text": "more"}),
                (f"/api/sessions/{session}/interrupt", {"text": "more"}),
                (f"/api/sessions/{session}/branch", {}),
                (f"/api/sessions/{session}/truncate", {"before": 1}),
                ("/api/sessions", {"message": {"text": "more"}}),
                ("/v1/responses", {"input": "more"}),
                (f"/api/sessions/{session}/undo", {}),
                (f"/api/sessions/{session}/answers/of-a-closed-question", {"text": "more"}),
                (f"/api/sessions/{session}/waiting/1", {"text": "more"}),
            ):
                method = "PUT" if "/waiting/" in where else "POST"
                refused = await ada.http.request(method, where, json=body)
                assert refused.status_code == 429, (where, refused.text)
                assert int(refused.headers["Retry-After"]) > 0
                for words in ("Nothing was stored", "50 kB", "delete conversations"):
                    assert words in refused.text, (where, refused.text)
            refused = await ada.http.post("/v1/responses", json={"input": "more"})
            assert refused.json()["error"]["code"] == "StorageLimitReached"
            assert len(db.get_messages(session)) == 2
            assert (await ada.http.get(f"/api/sessions/{session}/messages")).status_code == 200
            assert (await ben.http.post("/api/sessions", json={})).status_code == 201
            assert (await ada.http.delete(f"/api/sessions/{session}?force=true")).status_code == 204
            again = await ada.http.post("/api/sessions", json={"message": {"text": "hi"}})
            assert again.status_code == 201, again.text

    async def until_full(http: Any) -> None:  # noqa: ANN401 - a client
        """A server remembers an account for two seconds."""
        answers: list[int] = []
        while 429 not in answers:
            answers.append((await http.post("/api/sessions", json={})).status_code)

    wait(scenario())


def test_a_turn_of_a_full_account_ends_with_a_note_whoever_sent_it(in_memory: SessionDB, wait: Wait) -> None:
    db = in_memory

    async def scenario() -> None:
        async with a_server(db, "one", "never said") as server, account(server, db, "Ada") as ada:
            begun = await ada.http.post("/api/sessions", json={"message": {"text": LONG}})
            session = begun.json()["id"]
            await until(lambda: len(db.get_messages(session)) == 2)
            db.users.change(ada.user.id, UserChanges(storage_limit=LIMIT))
            await server.host.accounts.measure()
            await server.send(session, "more")
            await until(lambda: len(db.get_messages(session)) == 4)
            told = str(db.get_messages(session)[-1]["content"])
            assert "the storage limit of this account is reached" in told
            assert "Delete conversations" in told

    wait(scenario())


def test_an_admin_is_told_what_each_account_has_used_when_asked(in_memory: SessionDB, wait: Wait) -> None:
    db = in_memory

    async def scenario() -> None:
        async with (
            a_server(db, "one") as server,
            account(server, db, "Root", "admin") as admin,
            account(server, db, "Ada") as ada,
        ):
            begun = await ada.http.post("/api/sessions", json={"message": {"text": "hi"}})
            await until(lambda: len(db.get_messages(begun.json()["id"])) == 2)
            plain, told = [
                {each["name"]: each["turns_used"] for each in (await admin.http.get(path)).json()["items"]}
                for path in ("/api/users", "/api/users?use=true")
            ]
            assert (plain, told) == ({"Ada": None, "Root": None}, {"Ada": 1, "Root": 0})
            status = (await admin.http.get("/api/status")).json()["account"]
            assert (status["id"], status["role"]) == (admin.user.id, "admin")
            assert (await ada.http.get("/api/users?use=true")).status_code == 403

    wait(scenario())
