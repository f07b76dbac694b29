"""Tokens of accounts, what ends them, the limits of a day, and what an admin may do."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx2
import pytest

from holdfast.core.secret import Secret
from holdfast.core.settings import WebSettings
from holdfast.host import SessionHost
from holdfast.sessions import SessionDB
from holdfast.sessions.usage import UsageEntry
from holdfast.testing import FakeClock
from holdfast.web.access import MOST_AT_ONCE
from holdfast.web.account_tokens import REMEMBERED_SECONDS, AccountTokens
from tests.agent.agent_fixtures import DEADLINE, until
from tests.gateway.gateway_fixtures import TwoModels
from tests.host.host_fixtures import host_parts
from tests.polling import pauses
from tests.web.api.account_fixtures import a_server, account
from tests.web.api.api_server import TOKEN, Served, frames

pytestmark = pytest.mark.clause("N5", "S5")
Wait = Callable[[Awaitable[Any]], Any]


def shows(server: Served, secret: str) -> httpx2.AsyncClient:
    headers = {"Authorization": f"Bearer {secret}"}
    return httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=DEADLINE)


def plain(answer: httpx2.Response) -> tuple[int, str]:
    """An answer without the id of its request."""
    return answer.status_code, answer.text.replace(answer.headers.get("X-Request-ID", "-"), "")


def test_every_token_that_does_not_count_is_answered_as_any_wrong_one(
    in_memory: SessionDB, wait: Wait
) -> None:
    db = in_memory

    async def scenario() -> None:
        async with a_server(db) as server, account(server, db, "Ada") as ada:
            assert (await ada.http.get("/api/sessions")).status_code == 200
            expired, _ = db.users.issue_token(ada.user.id, "short", 0.000_001)
            revoked, record = db.users.issue_token(ada.user.id, "lost")
            db.users.revoke_token(record.id)
            off = db.users.create("Off")
            disabled, _ = db.users.issue_token(off.id, "off")
            db.users.disable(off.id)
            wrong = ["x", "hfu_", "hfu_" + "A" * 43, ada.secret[:-1], ada.secret + "x", "hfu_" + "x" * 5000]
            said = set()
            for secret in (expired, revoked, disabled, *wrong):
                async with shows(server, secret) as http:
                    said.add(plain(await http.get("/api/sessions")))
            assert {status for status, _ in said} == {401}
            assert len(said) == 1

    wait(scenario())


def test_a_browser_signs_in_with_an_accounts_token_and_the_log_says_so(
    in_memory: SessionDB, wait: Wait
) -> None:
    db = in_memory

    async def scenario() -> None:
        async with a_server(db) as server, account(server, db, "Ada") as ada:
            answer = await ada.http.post("/api/sign-in")
            assert answer.status_code == 204
            cookie = answer.cookies["holdfast_token"]
            async with server.stranger() as browser:
                headers = {"Cookie": f"holdfast_token={cookie}"}
                begun = await browser.post("/api/sessions", json={}, headers=headers)
                assert begun.json()["scope"] == ada.scope
            async with shows(server, "hfu_guess") as http:
                assert (await http.post("/api/sign-in")).status_code == 401
            assert (await server.http.post("/api/sign-in")).status_code == 204
            told = [(each.actor, each.action) for each in db.audit.list(limit=3)]
            assert told == [("installation", "sign-in"), ("", "sign-in.refused"), (ada.scope, "sign-in")]
            assert all(ada.secret not in each.detail for each in db.audit.list())

    wait(scenario())


def test_the_page_gets_a_sign_in_of_its_own_for_an_accounts_token(in_memory: SessionDB, wait: Wait) -> None:
    db = in_memory

    async def scenario() -> None:
        async with a_server(db) as server, account(server, db, "Ada") as ada:
            answer = await ada.http.post("/api/sign-in")
            cookie = answer.cookies["holdfast_token"]
            assert cookie != ada.secret
            assert f"max-age={30 * 86_400};" in answer.headers["set-cookie"].lower()
            _, issued = db.users.tokens(ada.user.id)
            assert (issued.kind, issued.label) == ("sign-in", "token, from 127.0.0.1")
            async with server.stranger() as browser:
                shown = {"Cookie": f"holdfast_token={cookie}"}
                path = f"/api/users/{ada.user.id}/tokens"
                refused = await browser.post(path, json={}, headers=shown)
                assert (refused.status_code, refused.json()["reason"]) == (403, "SignInMakesNoTokens")
                assert (await browser.post("/api/sign-out", headers=shown)).status_code == 204
            assert db.users.of_token(cookie) is None
            assert db.users.of_token(ada.secret) is not None

    wait(scenario())


def test_a_sign_in_gets_no_other_one_and_neither_does_a_token_that_was_just_revoked(
    in_memory: SessionDB, wait: Wait
) -> None:
    db = in_memory

    async def scenario() -> None:
        async with a_server(db) as server, account(server, db, "Ada") as ada:
            assert (await ada.http.get("/api/sessions")).status_code == 200
            own, _ = db.users.issue_token(ada.user.id, "browser", 60, "sign-in")
            async with shows(server, own) as http:
                assert (await http.get("/api/sessions")).status_code == 200
                assert (await http.post("/api/sign-in")).status_code == 401
            [first, _] = db.users.tokens(ada.user.id)
            db.users.revoke_token(first.id)
            assert (await ada.http.post("/api/sign-in")).status_code == 401
            assert len(db.users.tokens(ada.user.id)) == 2

    wait(scenario())


def test_a_link_signs_no_browser_in_to_an_account(in_memory: SessionDB, wait: Wait) -> None:
    db = in_memory

    async def scenario() -> None:
        async with (
            a_server(db) as server,
            account(server, db, "Ada") as ada,
            server.stranger() as browser,
        ):
            html = {"Accept": "text/html"}
            answer = await browser.get(f"/?token={ada.secret}", headers=html)
            assert (answer.status_code, answer.headers["location"]) == (303, "/#/sign-in/link")
            assert "set-cookie" not in answer.headers
            refused = await browser.get(f"/?token={ada.secret}")
            assert refused.status_code == 401
            assert "not taken from links" in refused.json()["detail"]
            assert "set-cookie" not in refused.headers
            owner = await browser.get(f"/?token={TOKEN}", headers=html)
            assert (owner.headers["location"], owner.cookies["holdfast_token"]) == ("/", TOKEN)

    wait(scenario())


def test_wrong_tokens_can_not_push_everything_else_out_of_the_audit_log(
    in_memory: SessionDB, wait: Wait
) -> None:
    db = in_memory

    async def scenario() -> None:
        async with a_server(db) as server, account(server, db, "Ada"):
            before = len(db.audit.list(limit=1000))
            async with shows(server, "hfu_guess") as http:
                for _ in range(60):
                    assert (await http.post("/api/sign-in")).status_code == 401
            noted = len(db.audit.list(limit=1000)) - before
            assert 1 <= noted < 30

    wait(scenario())


@pytest.mark.parametrize("allowed", [(), ("small",)])
def test_an_account_chooses_among_the_models_on_offer_and_opens_no_file_by_a_models_name(
    in_memory: SessionDB, wait: Wait, allowed: tuple[str, ...]
) -> None:
    db = in_memory
    forbidden = ["scripted:/dev/zero", "gguf:/etc/passwd", "embedded:", "openai:gpt-9", "nothing"]
    forbidden += ["large"] if allowed else []

    async def scenario() -> None:
        settings = WebSettings(user_models=allowed)
        async with (
            a_server(db, models=TwoModels(), settings=settings) as server,
            account(server, db, "Ada") as ada,
        ):
            mine = (await ada.http.post("/api/sessions", json={"model": "small"})).json()
            assert mine["model"] == "small"
            for name in forbidden:
                begun = await ada.http.post("/api/sessions", json={"model": name})
                changed = await ada.http.patch(f"/api/sessions/{mine['id']}", json={"model": name})
                for refused in (begun, changed):
                    assert refused.status_code == 422, name
                    assert "can be chosen here: " in refused.json()["detail"]
            assert (await ada.http.get(f"/api/sessions/{mine['id']}")).json()["model"] == "small"

    wait(scenario())


def test_one_account_can_not_take_all_streams(in_memory: SessionDB, wait: Wait) -> None:
    db = in_memory

    async def scenario() -> None:
        async with (
            a_server(db) as server,
            account(server, db, "Ada") as ada,
            account(server, db, "Bob") as bob,
            AsyncExitStack() as stack,
        ):
            for _ in range(MOST_AT_ONCE):
                opened = await stack.enter_async_context(ada.http.stream("GET", "/api/events"))
                assert opened.status_code == 200
            refused = await ada.http.get("/api/sessions")
            assert refused.status_code == 429
            assert refused.headers["retry-after"]
            assert (await bob.http.get("/api/sessions")).status_code == 200
            await stack.aclose()
            for pause in pauses():
                if (await ada.http.get("/api/sessions")).status_code == 200:
                    break
                await asyncio.sleep(pause)  # noqa: TID251 - polls under a deadline

    wait(scenario())


def test_a_compaction_needs_what_is_left_of_the_daily_limit_and_counts_for_it(
    in_memory: SessionDB, wait: Wait
) -> None:
    db = in_memory

    async def scenario() -> None:
        async with a_server(db, "an answer") as server, account(server, db, "Ada", daily_tokens=1000) as ada:
            mine = (await ada.http.post("/api/sessions", json={})).json()["id"]
            assert (await ada.http.post(f"/api/sessions/{mine}/compact", json={})).status_code == 202
            db.usage.record(mine, [UsageEntry("summary", "m", input=990, output=10)])
            refused = await ada.http.post(f"/api/sessions/{mine}/compact", json={})
            assert refused.status_code == 429
            refused = await ada.http.post(f"/api/sessions/{mine}/send", json={"text": "hello"})
            assert refused.status_code == 429
            assert (
                await ada.http.delete(f"/api/sessions/{mine}", params={"force": "true"})
            ).status_code == 204
            refused = await ada.http.post("/api/sessions", json={"message": {"text": "hello"}})
            assert refused.status_code == 429

    wait(scenario())


def test_a_revoked_token_is_forgotten_within_seconds(in_memory: SessionDB, wait: Wait) -> None:
    db = in_memory

    async def scenario() -> None:
        clock = FakeClock()
        async with SessionHost(host_parts(db)) as host:
            tokens = AccountTokens(host, clock)
            ada = db.users.create("Ada")
            secret, record = db.users.issue_token(ada.id, "phone")
            given = secret.encode()
            assert await tokens.principal(given) is not None
            db.users.revoke_token(record.id)
            clock.advance(REMEMBERED_SECONDS + 0.1)
            assert await tokens.principal(given) is None
            assert await tokens.principal(Secret(TOKEN).reveal().encode()) is None

    wait(scenario())


def test_an_open_stream_ends_when_the_account_is_disabled_and_tells_nothing_more(
    in_memory: SessionDB, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = in_memory
    monkeypatch.setattr("holdfast.web.auth.REMEMBERED_SECONDS", 0.0)
    monkeypatch.setattr("holdfast.web.account_tokens.REMEMBERED_SECONDS", 0.0)

    async def scenario() -> None:
        async with a_server(db, "one", "two") as server, account(server, db, "Ada") as ada:
            begun = await ada.http.post("/api/sessions", json={"message": {"text": "hi"}})
            session = begun.json()["id"]
            await until(lambda: len(db.get_messages(session)) == 2)
            async with ada.http.stream("GET", f"/api/sessions/{session}/events") as stream:
                events = frames(stream)
                assert (await anext(events))["kind"] == "SessionSnapshot"
                db.users.disable(ada.user.id)
                await server.send(session, "does it run?")
                rest = [each async for each in events]
                assert rest == []

    wait(scenario())


def test_a_disabled_account_runs_nothing_new_whoever_sends(in_memory: SessionDB, wait: Wait) -> None:
    db = in_memory

    async def scenario() -> None:
        async with a_server(db, "one", "never said") as server, account(server, db, "Ada") as ada:
            begun = await ada.http.post("/api/sessions", json={"message": {"text": "hi"}})
            session = begun.json()["id"]
            await until(lambda: len(db.get_messages(session)) == 2)
            db.users.disable(ada.user.id)
            await server.send(session, "more")
            await until(lambda: len(db.get_messages(session)) == 4)
            assert "disabled" in str(db.get_messages(session)[-1]["content"])

    wait(scenario())


def test_a_days_turns_are_refused_before_anything_is_stored(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with (
            a_server(db, "one", "two", "three") as server,
            account(server, db, "Ada", daily_turns=2) as ada,
            account(server, db, "Ben") as ben,
        ):
            begun = await ada.http.post("/api/sessions", json={"message": {"text": "hi"}})
            session = begun.json()["id"]
            await until(lambda: len(db.get_messages(session)) == 2)
            answer = await ada.http.post(f"/api/sessions/{session}/send", json={"text": "again"})
            assert answer.status_code == 202
            await until(lambda: len(db.get_messages(session)) == 4)
            hello = {"messages": [{"role": "user", "content": "hi"}]}
            for path, body in (
                (f"/api/sessions/{session}/send", {"text": "more"}),
                (f"/api/sessions/{session}/interrupt", {"text": "more"}),
                ("/api/sessions", {"message": {"text": "more"}}),
                ("/v1/chat/completions", hello),
                ("/v1/responses", {"input": "more"}),
            ):
                refused = await ada.http.post(path, json=body)
                assert refused.status_code == 429, (path, refused.text)
                assert int(refused.headers["Retry-After"]) > 0
                assert "Nothing was stored" in refused.text
            assert len(db.conversations.list(scope=ada.scope)) == 1
            assert len(db.get_messages(session)) == 4
            # To delete the conversation gives no turn back.
            assert (await ada.http.delete(f"/api/sessions/{session}?force=true")).status_code == 204
            assert (await ada.http.post("/api/sessions", json={})).status_code == 429
            other = await ben.http.post("/api/sessions", json={"message": {"text": "hi"}})
            assert other.status_code == 201

    wait(scenario())


def test_a_turn_beyond_the_days_turns_ends_with_a_note_whoever_sent_it(
    in_memory: SessionDB, wait: Wait
) -> None:
    db = in_memory

    async def scenario() -> None:
        async with (
            a_server(db, "one", "never said") as server,
            account(server, db, "Ada", daily_turns=1) as ada,
        ):
            begun = await ada.http.post("/api/sessions", json={"message": {"text": "hi"}})
            session = begun.json()["id"]
            await until(lambda: len(db.get_messages(session)) == 2)
            await server.send(session, "more")
            await until(lambda: len(db.get_messages(session)) == 4)
            assert "the turns for one day are used up" in str(db.get_messages(session)[-1]["content"])

    wait(scenario())


def test_an_admin_manages_accounts_and_others_do_not(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with (
            a_server(db, "one") as server,
            account(server, db, "Root", "admin") as admin,
            account(server, db, "Ada") as ada,
        ):
            made = await admin.http.post("/api/users", json={"name": "Ben", "daily_turns": 3})
            assert made.status_code == 201, made.text
            ben, secret = made.json()["user"], made.json()["secret"]
            async with shows(server, secret) as http:
                assert (await http.get("/api/sessions")).json()["items"] == []
                assert (await http.get("/api/users")).status_code == 403
                own = await http.get(f"/api/users/{ben['id']}/tokens")
                assert own.status_code == 200, own.text
                [first] = own.json()["items"]
                another = await http.post(f"/api/users/{ben['id']}/tokens", json={"label": "phone"})
                assert another.status_code == 201
                assert (await http.get(f"/api/users/{ada.user.id}/tokens")).status_code == 403
                await http.delete(f"/api/users/{ben['id']}/tokens/{first['id']}")
                await until_status(http, 401)
            path = f"/api/users/{ben['id']}"
            changed = await admin.http.patch(path, json={"role": "guest", "daily_turns": -1})
            assert (changed.json()["role"], changed.json()["daily_turns"]) == ("guest", None)
            assert (await admin.http.patch(path, json={"disabled": True})).json()["disabled"]
            planted = await admin.http.post(f"{path}/tokens", json={})
            assert (planted.status_code, planted.json()["reason"]) == (403, "NotForAccounts")
            assert (await server.http.post(f"{path}/tokens", json={})).status_code == 409
            myself = f"/api/users/{admin.user.id}"
            assert (await admin.http.patch(myself, json={"disabled": True})).status_code == 422
            assert (await admin.http.post("/api/users", json={"name": "ben"})).status_code == 409
            assert (await admin.http.patch("/api/users/x", json={"role": "user"})).status_code == 404
            await ada.http.post("/api/sessions", json={})
            reads = await admin.http.post(f"/api/users/{ada.user.id}/tokens", json={})
            assert reads.status_code == 403, "it would show the account's conversations"
            assert (await admin.http.delete(f"/api/users/{ada.user.id}")).status_code == 409
            assert (await admin.http.delete(path)).status_code == 204
            log = (await admin.http.get("/api/users/audit")).json()["items"]
            assert log[0]["action"] == "user.removed"
            assert log[0]["actor"] == admin.scope
            assert (await server.http.get("/api/users")).status_code == 200

    wait(scenario())


async def until_status(http: httpx2.AsyncClient, status: int) -> None:
    for pause in pauses():
        if (await http.get("/api/sessions")).status_code == status:
            return
        await asyncio.sleep(pause)  # noqa: TID251 - polls under a deadline


def test_an_invitation_lets_a_stranger_in_once(in_memory: SessionDB, wait: Wait) -> None:
    db = in_memory

    async def scenario() -> None:
        async with (
            a_server(db) as server,
            account(server, db, "Root", "admin") as admin,
            server.stranger() as stranger,
        ):
            invited = await admin.http.post("/api/users/invitations", json={"role": "guest"})
            path = f"/api/invitations/{invited.json()['code']}"
            assert (await stranger.post(path, json={"name": "a\u202eb"})).status_code == 422
            assert (await stranger.post(path, json={"name": "ROOT"})).status_code == 409
            joined = await stranger.post(path, json={"name": "Ben"})
            assert joined.status_code == 201, joined.text
            assert joined.json()["user"]["role"] == "guest"
            async with shows(server, joined.json()["secret"]) as http:
                assert (await http.get("/api/status")).json()["store"] == ""
            again = await stranger.post(path, json={"name": "Cleo"})
            guess = await stranger.post("/api/invitations/hfi_guess", json={"name": "Cleo"})
            assert plain(again) == plain(guess)
            assert again.status_code == 404
            assert (await stranger.get(path)).status_code in (401, 404, 405)

    wait(scenario())
