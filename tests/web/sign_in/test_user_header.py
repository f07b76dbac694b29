"""A trusted proxy names the account of a request; nobody else can."""

import subprocess
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic import ValidationError

from holdfast.core.settings import WebSettings
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import OWNER
from holdfast.sessions.user_records import UserChanges
from holdfast.testing import FakeClock
from holdfast.web.account_tokens import REMEMBERED_SECONDS
from tests.web.api.api_server import BEARER, Served, served
from tests.web.page.proxy_servers import NAME, nginx

Wait = Callable[[Awaitable[Any]], Any]
HEADER = "X-Forwarded-User"


def settings(**more: Any) -> WebSettings:  # noqa: ANN401
    return WebSettings.model_validate({"user_header": HEADER, "trusted_proxies": "127.0.0.1", **more})


async def begun(client: httpx2.AsyncClient, *names: str | bytes, **more: str) -> httpx2.Response:
    headers: list[Any] = [(HEADER, each) for each in names]
    return await client.post("/api/sessions", json={}, headers=[*headers, *more.items()])


def scope_of(db: SessionDB, answer: httpx2.Response) -> str:
    assert answer.status_code == 201, answer.text
    session = db.get_session(answer.json()["id"])
    assert session is not None
    return session.scope


def test_the_named_account_is_let_in_whatever_else_the_request_shows(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        anna, berta = db.users.create("Anna", "user"), db.users.create("Berta", "admin")
        db.users.link_identity(berta.id, "proxy", "b@example.org")
        secret, _ = db.users.issue_token(berta.id, "hers")
        async with served(db, settings=settings()) as server, server.stranger() as browser:
            assert scope_of(db, await begun(browser, "Anna")) == anna.scope
            assert scope_of(db, await begun(browser, "b@example.org")) == berta.scope
            for shown in (BEARER["Authorization"], f"Bearer {secret}", "Basic YTpi"):
                assert scope_of(db, await begun(browser, "Anna", Authorization=shown)) == anna.scope
            cookie = f"holdfast_token={secret}"
            assert scope_of(db, await begun(browser, "Anna", Cookie=cookie)) == anna.scope
            entries = [each for each in db.audit.list() if each.action == "sign-in"]
            assert [each.actor for each in entries] == [berta.scope, anna.scope], (
                "one for each, not for each request"
            )

    wait(scenario())


@pytest.mark.parametrize(
    ("names", "status", "reason"),
    [
        ((), 401, "NoUser"),
        (("",), 401, "NoUser"),
        (("Anna", "Anna"), 401, "NoUser"),
        ((b"\xff\xfe",), 401, "NoUser"),
        (("x" * 2000,), 401, "NoUser"),
        (("Nobody",), 403, "UnknownUser"),
        (("anna",), 403, "UnknownUser"),
        (("Carla",), 403, "UserDisabled"),
    ],
)
def test_without_one_name_of_an_account_a_request_through_the_proxy_is_refused(
    db: SessionDB, wait: Wait, names: tuple[str | bytes, ...], status: int, reason: str
) -> None:
    async def scenario() -> None:
        db.users.create("Anna", "user")
        db.users.disable(db.users.create("Carla", "user").id)
        async with served(db, settings=settings()) as server, server.stranger() as browser:
            for more in ({}, BEARER):
                answer = await begun(browser, *names, **more)
                assert (answer.status_code, answer.json()["reason"]) == (status, reason)
            assert (await browser.get("/healthz")).status_code == 200
            assert (await browser.get("/")).status_code == 200
            assert db.audit.list(limit=1)[0].action == "sign-in.refused"

    wait(scenario())


def test_after_the_first_time_the_name_of_an_account_means_nothing(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        anna, eve = db.users.create("Anna"), db.users.create("Eve", "admin")
        clock = FakeClock()
        async with served(db, settings=settings(), clock=clock) as server, server.stranger() as browser:
            assert scope_of(db, await begun(browser, "Anna")) == anna.scope
            assert scope_of(db, await begun(browser, "Eve")) == eve.scope
            db.users.change(anna.id, UserChanges(name="Anna of before"))
            db.users.change(eve.id, UserChanges(name="Anna"))
            clock.advance(REMEMBERED_SECONDS)
            assert scope_of(db, await begun(browser, "Anna")) == anna.scope
            assert scope_of(db, await begun(browser, "Eve")) == eve.scope
            db.users.change(anna.id, UserChanges(name="Zoe"))
            assert (await begun(browser, "Zoe")).json()["reason"] == "UnknownUser"
            linked = [each for each in db.audit.list() if each.action == "identity.linked"]
            assert [(each.actor, each.target) for each in linked] == [
                ("proxy", eve.scope),
                ("proxy", anna.scope),
            ]

    wait(scenario())


@pytest.mark.parametrize("create_users", [False, True])
@pytest.mark.parametrize("other", ["ANNE\u0301", "Ann\u00e9", "\uff21nne\u0301"])
def test_names_that_read_alike_are_not_one_person(
    db: SessionDB, wait: Wait, other: str, create_users: bool
) -> None:
    async def scenario() -> None:
        anne = db.users.create("Anne\u0301")
        chosen = settings(create_users=create_users)
        async with served(db, settings=chosen) as server, server.stranger() as browser:
            assert scope_of(db, await begun(browser, "Anne\u0301".encode())) == anne.scope
            refused = await begun(browser, other.encode())
            assert (refused.status_code, refused.json()["reason"]) == (403, "UnknownUser")
            assert db.users.list() == [anne]

    wait(scenario())


def test_from_anybody_else_the_header_says_nothing(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        db.users.create("Anna", "user")
        chosen = settings(trusted_proxies="192.0.2.1")
        async with served(db, settings=chosen) as server, server.stranger() as browser:
            refused = await begun(browser, "Anna")
            assert (refused.status_code, refused.json()["reason"]) == (401, "NoToken")
            assert scope_of(db, await begun(server.http, "Anna")) == OWNER
            behind = {"X-Forwarded-For": "192.0.2.1"}
            assert (await begun(browser, "Anna", **behind)).status_code == 401

    wait(scenario())


def test_with_the_setting_unknown_names_get_an_account_once(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db, settings=settings(create_users=True)) as server, server.stranger() as browser:
            scopes = {scope_of(db, await begun(browser, "dora@example.org")) for _ in range(2)}
            [user] = db.users.list()
            assert (user.name, user.role, scopes) == ("dora@example.org", "user", {user.scope})
            assert db.users.of_identity("proxy", "dora@example.org") == user
            assert (await begun(browser, "no\u202ename".encode())).status_code == 403

    wait(scenario())


@pytest.mark.parametrize(
    "wrong",
    [
        {"trusted_proxies": ""},
        {"authentication": "none"},
        {"user_header": "Authorization"},
        {"user_header": "X Forwarded"},
        {"user_header": "x-forwarded-for"},
    ],
)
def test_settings_that_would_let_anybody_in_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        settings(**wrong)


@pytest.mark.slow
def test_behind_a_real_nginx_only_its_own_word_counts(
    db: SessionDB, wait: Wait, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    # The worker of nginx is another user.
    place = tempfile.TemporaryDirectory(dir="/tmp")
    request.addfinalizer(place.cleanup)
    users = Path(place.name) / "users"
    users.parent.chmod(0o755)
    hashed = subprocess.run(
        ["openssl", "passwd", "-apr1", "the password"], capture_output=True, text=True, check=True
    ).stdout.strip()
    users.write_text(f"anna:{hashed}\nnobody:{hashed}\n")

    async def through(server: Served, port: int) -> None:
        async with httpx2.AsyncClient(
            base_url=f"https://127.0.0.1:{port}", verify=False, headers={"Host": NAME}
        ) as browser:
            assert (await begun(browser)).status_code == 401, "nginx itself asks"
            anna = db.users.by_name("anna")
            assert anna is not None
            shown = await browser.post("/api/sessions", json={}, headers=BEARER)
            assert shown.status_code == 401, "the token is not for nginx"
            for forged in ({}, {HEADER: "Berta"}, {"x_forwarded_user": "Berta"}):
                answer = await browser.post(
                    "/api/sessions", json={}, headers=forged, auth=("anna", "the password")
                )
                assert scope_of(db, answer) == anna.scope
            unknown = await browser.post("/api/sessions", json={}, auth=("nobody", "the password"))
            assert unknown.json()["reason"] == "UnknownUser"
            direct = await server.http.post("/api/sessions", json={})
            assert direct.json()["reason"] == "NoUser", "this machine is the proxy"

    async def scenario() -> None:
        db.users.create("anna", "user")
        db.users.create("Berta", "admin")
        chosen = settings(allowed_hosts=NAME)
        async with served(db, settings=chosen) as server:
            with nginx(tmp_path, "", server.port, users) as port:
                await through(server, port)

    wait(scenario())
