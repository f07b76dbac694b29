"""Signing in by name and password, over real HTTP."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest

from holdfast.core.secret import Secret
from holdfast.host.passwords import Passwords
from holdfast.sessions import SessionDB
from holdfast.sessions.user_records import User
from holdfast.sessions.users import Users
from holdfast.testing import FakeClock
from holdfast.web.account_tokens import REMEMBERED_SECONDS
from holdfast.web.auth import MOST_SHOWN
from holdfast.web.sign_in.attempts import BY_NAME
from tests.web.api.api_server import TOKEN, served

pytestmark = pytest.mark.slow  # each look at a password takes the time that guessing shall take

Wait = Callable[[Awaitable[Any]], Any]
PASSWORD = "correct horse battery"


def account(db: SessionDB, name: str = "Anna", password: str = PASSWORD) -> User:
    user = db.users.create(name, "user")
    db.users.set_password_hash(user.id, Passwords().hash(Secret(password)))
    return user


async def signed_in(client: httpx2.AsyncClient, name: str, password: str) -> httpx2.Response:
    return await client.post("/api/sign-in/password", json={"name": name, "password": password})


def actions(db: SessionDB) -> list[tuple[str, str, str]]:
    """The newest first."""
    return [(each.action, each.target, each.detail) for each in db.audit.list()]


def test_name_and_password_give_a_cookie_that_lets_the_account_in_until_it_signs_out(
    db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        user, clock = account(db), FakeClock()
        async with served(db, clock=clock) as server, server.stranger() as browser:
            assert (await browser.get("/api/status")).status_code == 401
            answer = await signed_in(browser, "anna", PASSWORD)
            assert answer.status_code == 204, answer.text
            said = [each.strip().lower() for each in answer.headers["set-cookie"].split(";")]
            assert {"httponly", "samesite=strict", "path=/", f"max-age={30 * 86_400}"} <= set(said)
            cookie = browser.cookies["holdfast_token"]
            assert cookie != TOKEN
            found = db.users.of_token(cookie)
            assert found is not None
            assert found.id == user.id
            [token] = db.users.tokens(user.id)
            assert (token.kind, token.label) == ("sign-in", "password, from 127.0.0.1")
            assert (await browser.get("/api/sessions")).status_code == 200
            assert (await browser.post("/api/sign-out")).status_code == 204
            assert "holdfast_token" not in browser.cookies
            assert db.users.of_token(cookie) is None
            kept = {"Cookie": f"holdfast_token={cookie}"}
            clock.advance(REMEMBERED_SECONDS)
            assert (await browser.get("/api/sessions", headers=kept)).status_code == 401
            assert [each[:2] for each in actions(db)[:2]] == [
                ("signed-out", user.scope),
                ("sign-in", user.scope),
            ]

    wait(scenario())


@pytest.mark.parametrize(
    ("name", "password"),
    [("Anna", "wrong wrong wrong"), ("Nobody", PASSWORD), ("Berta", PASSWORD), ("Carla", PASSWORD), ("", "")],
)
def test_every_refusal_reads_the_same_and_is_on_record(
    db: SessionDB, wait: Wait, name: str, password: str
) -> None:
    async def scenario() -> None:
        account(db)
        db.users.create("Berta", "user")
        db.users.disable(account(db, "Carla").id)
        async with served(db) as server, server.stranger() as browser:
            answer = await signed_in(browser, name, password)
            assert (answer.status_code, answer.json()["reason"]) == (401, "WrongPassword")
            assert "set-cookie" not in answer.headers
            first = await signed_in(browser, "Somebody else", "x")
            assert {**answer.json(), "request_id": ""} == {**first.json(), "request_id": ""}
            known = db.users.by_name(name) if name else None
            refused = [each for each in actions(db) if each[0] == "sign-in.refused"]
            assert refused[1] == ("sign-in.refused", known.scope if known else "", "password, from 127.0.0.1")
            assert not any(password in " ".join(each) for each in actions(db) if password)

    wait(scenario())


def test_after_some_attempts_each_must_wait_and_even_the_right_password_is_not_looked_at(
    db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        account(db)
        account(db, "Berta")
        clock = FakeClock()
        async with served(db, clock=clock) as server, server.stranger() as browser:
            tried = [await signed_in(browser, "Anna", f"wrong password {n}") for n in range(BY_NAME.free)]
            assert [each.status_code for each in tried] == [401] * BY_NAME.free
            answer = await signed_in(browser, "ANNA", PASSWORD)
            assert (answer.status_code, answer.json()["reason"]) == (429, "TooManyAttempts")
            assert int(answer.headers["retry-after"]) >= 1
            assert (await signed_in(browser, "Berta", PASSWORD)).status_code == 204
            clock.advance(1)
            assert (await signed_in(browser, "Anna", PASSWORD)).status_code == 204

    wait(scenario())


def test_many_attempts_at_once_are_not_free(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        account(db)
        async with served(db, clock=FakeClock()) as server, server.stranger() as browser:
            answers = await asyncio.gather(
                *(signed_in(browser, "Anna", f"guess number {n}") for n in range(15))
            )
            counted = [each.status_code for each in answers]
            assert counted.count(401) == BY_NAME.free
            assert set(counted) == {401, 429}

    wait(scenario())


def test_a_hash_with_old_parameters_is_renewed_at_a_sign_in(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        user = db.users.create("Anna", "user")
        old = Passwords(rounds=1, memory_kib=1024).hash(Secret(PASSWORD))
        db.users.set_password_hash(user.id, old)
        async with served(db) as server, server.stranger() as browser:
            assert (await signed_in(browser, "Anna", "not this one")).status_code == 401
            assert db.users.password_hash(user.id) == old
            assert (await signed_in(browser, "Anna", PASSWORD)).status_code == 204
            renewed = db.users.password_hash(user.id)
            assert renewed is not None
            assert "m=65536,t=3" in renewed
            assert (await signed_in(browser, "Anna", PASSWORD)).status_code == 204
            assert db.users.password_hash(user.id) == renewed

    wait(scenario())


def test_signing_out_takes_the_cookie_and_ends_no_other_token(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        user = account(db)
        secret, record = db.users.issue_token(user.id, "a program of theirs")
        async with served(db) as server, server.stranger() as browser:
            for token in (TOKEN, secret, "nonsense"):
                headers = {"Cookie": f"holdfast_token={token}"}
                answer = await browser.post("/api/sign-out", headers=headers)
                assert answer.status_code == 204
                assert "max-age=0" in answer.headers["set-cookie"].lower()
            assert (await server.http.get("/api/status")).status_code == 200
            assert db.users.of_token(secret) is not None
            [token_now] = db.users.tokens(user.id)
            assert (token_now.id, token_now.revoked) == (record.id, None)

    wait(scenario())


def test_signing_out_asks_the_store_for_few_cookies(
    db: SessionDB, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        asked: list[str] = []
        looked_up = Users.signed_in

        def counted(users: Users, text: str) -> object:
            asked.append(text)
            return looked_up(users, text)

        user = account(db)
        secret, _ = db.users.issue_token(user.id, "browser", 60, "sign-in")
        monkeypatch.setattr(Users, "signed_in", counted)
        shown = [TOKEN, *["x"] * 50, secret, *[f"hfu_{n}" for n in range(50)]]
        async with served(db) as server, server.stranger() as browser:
            cookies = "; ".join(f"holdfast_token={each}" for each in shown)
            answer = await browser.post("/api/sign-out", headers={"Cookie": cookies})
            assert answer.status_code == 204
            assert asked == [secret, *[f"hfu_{n}" for n in range(MOST_SHOWN - 1)]]
            assert looked_up(db.users, secret) is None

    wait(scenario())


def test_what_can_be_used_is_said_to_everybody(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db) as server, server.stranger() as browser:
            assert (await browser.get("/api/sign-in/ways")).json() == {"password": False, "oidc": ""}
            user = account(db)
            assert (await browser.get("/api/sign-in/ways")).json() == {"password": True, "oidc": ""}
            db.users.disable(user.id)
            assert (await browser.get("/api/sign-in/ways")).json() == {"password": False, "oidc": ""}
            assert (await browser.get("/api/sign-in/oidc")).status_code == 404

    wait(scenario())


def test_a_page_of_another_site_can_sign_nobody_in_or_out(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        account(db)
        async with served(db) as server, server.stranger() as browser:
            foreign = {"Origin": "https://evil.example"}
            body = {"name": "Anna", "password": PASSWORD}
            answer = await browser.post("/api/sign-in/password", json=body, headers=foreign)
            assert answer.status_code == 403
            assert (await browser.post("/api/sign-out", headers=foreign)).status_code == 403

    wait(scenario())
