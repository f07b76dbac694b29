"""People change their own password with the old one, and set their first with an invitation."""

from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest

from holdfast.sessions import SessionDB
from holdfast.testing import FakeClock
from holdfast.web.sign_in.attempts import BY_NAME
from tests.web.api.api_server import served
from tests.web.sign_in.test_password import PASSWORD, account, actions, signed_in

pytestmark = pytest.mark.clause("S5")
Wait = Callable[[Awaitable[Any]], Any]
FRESH = "another horse battery"


async def changed(browser: httpx2.AsyncClient, old: str, new: str) -> httpx2.Response:
    return await browser.put("/api/password", json={"old": old, "new": new})


def test_the_old_password_gives_a_new_one_and_signs_other_browsers_out(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        user, clock = account(db), FakeClock()
        secret, _ = db.users.issue_token(user.id, "a program")
        async with (
            served(db, clock=clock) as server,
            server.stranger() as browser,
            server.stranger() as other,
        ):
            for each in (browser, other):
                assert (await signed_in(each, "Anna", PASSWORD)).status_code == 204
            cookie = other.cookies["holdfast_token"]
            short = await changed(browser, PASSWORD, "short")
            assert (short.status_code, "10 to 1,000" in short.text) == (422, True)
            answer = await changed(browser, PASSWORD, FRESH)
            assert answer.status_code == 204, answer.text
            assert db.users.of_token(cookie) is None
            assert db.users.of_token(secret) is not None
            assert (await browser.get("/api/sessions")).status_code == 200
            async with server.stranger() as third:
                assert (await signed_in(third, "Anna", PASSWORD)).status_code == 401
                assert (await signed_in(third, "Anna", FRESH)).status_code == 204
            told = [each for each in actions(db) if each[0] == "password.set"]
            assert told == [("password.set", user.scope, "")] * 2, "by the command, and by herself"
            assert not any(word in str(actions(db)) for word in (PASSWORD, FRESH))

    wait(scenario())


def test_a_wrong_old_password_changes_nothing_is_on_record_and_must_wait_at_last(
    db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        user, clock = account(db), FakeClock()
        secret, _ = db.users.issue_token(user.id, "a program")
        kept = db.users.password_hash(user.id)
        bearer = {"Authorization": f"Bearer {secret}"}
        async with served(db, clock=clock) as server, server.stranger() as http:
            http.headers.update(bearer)
            for _ in range(BY_NAME.free):
                refused = await changed(http, "not this one", FRESH)
                assert (refused.status_code, refused.json()["reason"]) == (403, "WrongPassword")
            again = await changed(http, PASSWORD, FRESH)
            assert (again.status_code, again.json()["reason"]) == (429, "TooManyAttempts")
            assert db.users.password_hash(user.id) == kept
            assert actions(db)[0][:2] == ("password.refused", user.scope)

    wait(scenario())


def test_without_a_password_and_without_an_account_there_is_nothing_to_change(
    db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        berta = db.users.create("Berta", "admin")
        secret, _ = db.users.issue_token(berta.id, "a program")
        async with served(db) as server, server.stranger() as http:
            http.headers.update({"Authorization": f"Bearer {secret}"})
            assert (await changed(http, "", FRESH)).status_code == 403
            assert db.users.password_hash(berta.id) is None
            owner = await changed(server.http, "x", FRESH)
            assert (owner.status_code, owner.json()["reason"]) == (409, "NoAccount")
        async with served(db) as server, server.stranger() as http:
            assert (await changed(http, PASSWORD, FRESH)).status_code == 401

    wait(scenario())


def test_an_invitation_makes_an_account_with_a_password(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        code = db.users.invite("user", 60)
        async with served(db) as server, server.stranger() as browser:
            path = f"/api/invitations/{code}"
            short = await browser.post(path, json={"name": "Grace", "password": "short"})
            assert short.status_code == 422, "and the invitation still counts"
            made = await browser.post(path, json={"name": "Grace", "password": PASSWORD})
            assert made.status_code == 201, made.text
            assert (await signed_in(browser, "grace", PASSWORD)).status_code == 204
            told = [each[0] for each in actions(db)]
            assert told.count("password.set") == 1
            used = await browser.post(path, json={"name": "Eve", "password": PASSWORD})
            assert used.status_code == 404

    wait(scenario())
