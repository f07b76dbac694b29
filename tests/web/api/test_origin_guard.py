"""Who gets in: the token, the Host, the Origin, and what is free."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import InvalidInput
from holdfast.core.settings import WebSettings
from holdfast.sessions import SessionDB
from holdfast.web.command import token_for
from holdfast.web.sign_in.session_cookie import COOKIE
from holdfast.wiring.token_file import stored_token
from tests.web.api.api_server import BEARER, TOKEN, served

Wait = Callable[[Awaitable[Any]], Any]


@pytest.fixture
def db(in_memory: SessionDB) -> SessionDB:
    """Who gets in does not depend on the engine of the store."""
    return in_memory


GUARDED = ["/api/sessions", "/api/status", "/metrics", "/readyz", "/openapi.json", "/v1/models", "/nothing"]

OPEN = [
    ("get", "/api/sign-in/ways"),
    ("get", "/healthz"),
    ("post", "/api/invitations/{code}"),
    ("post", "/api/sign-in/password"),
    ("post", "/api/sign-out"),
]
"""What needs no token: the ways to get one, and to be rid of it."""


def test_without_the_token_nothing_but_the_page_and_the_pulse_is_shown(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db) as server, server.stranger() as stranger:
            for path in GUARDED:
                refused = await stranger.get(path)
                assert refused.status_code == 401, path
                assert refused.headers["www-authenticate"].startswith("Bearer")
                assert TOKEN not in refused.text
            assert (await stranger.get("/healthz")).json() == {"status": "ok"}
            assert (await stranger.get("/")).headers["content-type"].startswith("text/html")
            assert (await stranger.post("/")).status_code == 401

    wait(scenario())


@pytest.mark.clause("S5")
def test_every_route_that_is_described_asks_for_the_token(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db) as server, server.stranger() as stranger:
            described = (await server.http.get("/openapi.json")).json()["paths"]
            routes = [(method, path) for path, methods in described.items() for method in methods]
            assert len(routes) > 30
            let_in = []
            for method, path in routes:
                called = await stranger.request(method, re.sub(r"{\w+}", "1", path), content=b"{}")
                if called.status_code != 401:
                    let_in.append((method, path))
            assert sorted(let_in) == OPEN
            assert db.conversations.list() == []

    wait(scenario())


@pytest.mark.clause("S5")
@pytest.mark.parametrize(
    "shown",
    [
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Cookie": f"{COOKIE}=wrong"},
        {"Cookie": "§§; ;;=;"},
    ],
)
def test_a_wrong_token_is_refused(db: SessionDB, wait: Wait, shown: dict[str, str]) -> None:
    async def scenario() -> None:
        async with served(db) as server, server.stranger() as stranger:
            encoded = [(name.encode(), value.encode()) for name, value in shown.items()]
            refused = await stranger.get("/api/sessions", headers=encoded)
            assert refused.status_code == 401
            assert refused.json()["reason"] in ("NoToken", "WrongToken")

    wait(scenario())


def test_the_link_leaves_a_cookie_that_scripts_and_other_sites_cant_use(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db) as server, server.stranger() as browser:
            wrong = await browser.get("/", params={"token": "wrong"})
            assert wrong.status_code == 401
            assert "set-cookie" not in wrong.headers
            answer = await browser.get("/", params={"token": TOKEN})
            assert (answer.status_code, answer.headers["location"]) == (303, "/")
            cookie = answer.headers["set-cookie"].lower()
            assert all(part in cookie for part in ("httponly", "samesite=strict", "path=/"))
            assert (await browser.get("/api/sessions")).status_code == 200

    wait(scenario())


@pytest.mark.parametrize(
    "name", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "192.0.2.7", ""]
)
def test_another_name_for_this_server_is_refused(db: SessionDB, wait: Wait, name: str) -> None:
    async def scenario() -> None:
        async with served(db) as server:
            refused = await server.http.get("/api/sessions", headers={"Host": name})
            assert refused.status_code in (400, 421)
            assert (await server.http.get("/healthz", headers={"Host": name})).status_code in (400, 421)

    wait(scenario())


@pytest.mark.parametrize("name", ["localhost", "LOCALHOST:1", "[::1]:8484", "127.0.0.2", "my.proxy"])
def test_loopback_and_the_allowed_names_are_known(db: SessionDB, wait: Wait, name: str) -> None:
    async def scenario() -> None:
        settings = WebSettings(allowed_hosts=("my.proxy",))
        async with served(db, settings=settings) as server:
            assert (await server.http.get("/api/sessions", headers={"Host": name})).status_code == 200

    wait(scenario())


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://localhost"])
def test_a_foreign_page_may_not_call_even_with_the_token(db: SessionDB, wait: Wait, origin: str) -> None:
    async def scenario() -> None:
        async with served(db) as server:
            for shown in (BEARER, {"Cookie": f"{COOKIE}={TOKEN}"}):
                async with server.stranger() as browser:
                    headers = {**shown, "Origin": origin}
                    refused = await browser.post("/api/sessions", json={}, headers=headers)
                    assert (refused.status_code, refused.json()["reason"]) == (403, "ForeignOrigin")
            assert (await server.http.get("/api/sessions")).json()["items"] == []

    wait(scenario())


def test_the_own_page_and_an_allowed_one_may_call(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        settings = WebSettings(allowed_origins=("http://localhost:3000",))
        async with served(db, settings=settings) as server:
            own = await server.http.post("/api/sessions", json={}, headers={"Origin": server.url})
            assert own.status_code == 201
            page = {"Origin": "http://localhost:3000"}
            other = await server.http.post("/v1/chat/completions", json={}, headers=page)
            assert other.status_code == 400
            assert other.headers["access-control-allow-origin"] == "http://localhost:3000"
            async with server.stranger() as browser:
                asked = {**page, "Access-Control-Request-Method": "POST"}
                assert (await browser.options("/v1/chat/completions", headers=asked)).status_code == 200
                asked["Origin"] = "http://evil.example"
                assert (await browser.options("/v1/chat/completions", headers=asked)).status_code == 403

    wait(scenario())


@pytest.mark.parametrize(
    "path",
    [
        "/../pyproject.toml",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/..%2fapp.py",
        "//etc/passwd",
        "/page/../app.py",
        "/index.html%00.js",
        "/%5c..%5capp.py",
    ],
)
def test_no_path_leads_out_of_the_page(db: SessionDB, wait: Wait, path: str) -> None:
    async def scenario() -> None:
        async with served(db) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
            writer.write(f"{head}Connection: close\r\n\r\n".encode())
            answer = await reader.read()
            writer.close()
            assert answer.split()[1] in (b"404", b"400"), answer[:200]

    wait(scenario())


def test_the_page_is_strict_and_cached_by_its_tag(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db) as server, server.stranger() as browser:
            page = await browser.get("/")
            rules = page.headers["content-security-policy"]
            assert "default-src 'none'" in rules
            assert "unsafe" not in rules
            assert page.headers["x-content-type-options"] == "nosniff"
            again = await browser.get("/", headers={"If-None-Match": page.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")

    wait(scenario())


def test_the_token_is_kept_in_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    file = tmp_path / "data" / "web-token"
    token = stored_token(file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(token.reveal()) >= 40
    file.chmod(0o644)
    assert stored_token(file) == token
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.clause("S5")
def test_another_address_than_loopback_needs_authentication() -> None:
    for host in ("0.0.0.0", "192.0.2.7", "::", "example.org"):  # noqa: S104 - nobody listens
        with pytest.raises(InvalidInput, match="HOLDFAST_WEB_AUTHENTICATION=token"):
            token_for(WebSettings(host=host))
        with pytest.raises(InvalidInput, match="HOLDFAST_WEB_AUTHENTICATION=token"):
            token_for(WebSettings(host=host, authentication="none"))
        chosen = WebSettings.model_validate({"host": host, "authentication": "token", "token": "given"})
        assert token_for(chosen).reveal() == "given"
    assert not token_for(WebSettings(authentication="none"))
