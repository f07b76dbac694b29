"""Behind a proxy: whose word about a request counts, and a path that the proxy puts before all others."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.settings import WebSettings
from holdfast.process.forwarded_headers import address_in, forwarded_hops
from holdfast.sessions import SessionDB
from holdfast.web.command import Link
from tests.web.api.api_server import TOKEN, Served, served

Wait = Callable[[Awaitable[Any]], Any]


@pytest.fixture
def db(in_memory: SessionDB) -> SessionDB:
    """What a proxy says does not depend on the engine of the store."""
    return in_memory


NAME = "holdfast.example.org"
PROXY = {"Host": NAME, "X-Forwarded-Proto": "https", "X-Forwarded-Host": NAME, "X-Forwarded-For": "192.0.2.9"}
PAGE = {"Origin": f"https://{NAME}"}


def settings(**more: Any) -> WebSettings:  # noqa: ANN401
    return WebSettings.model_validate({"allowed_hosts": NAME, "trusted_proxies": "127.0.0.1", **more})


async def begun(server: Served, headers: dict[str, str] | list[tuple[str, str]]) -> int:
    """The status of a request that a page makes."""
    answer = await server.http.post("/api/sessions", json={}, headers=headers)
    return answer.status_code


@pytest.mark.parametrize(
    "said",
    [
        PROXY,
        {**PROXY, "X-Forwarded-For": "198.51.100.1, 192.0.2.9"},
        {**PROXY, "X-Forwarded-For": "[2001:db8::1]:4711"},
        {**PROXY, "X-Forwarded-Proto": "http, https"},
        {**PROXY, "X-Forwarded-Host": f"{NAME}:443"},
        {**PROXY, "Host": "127.0.0.1:8484"},
        {"Host": NAME, "Forwarded": f'for="[2001:db8::1]:4711";proto=https;host="{NAME}"'},
        {"Host": NAME, "Forwarded": f"for=_hidden;proto=https;host={NAME}"},
        {"Host": NAME, "Forwarded": "for=198.51.100.1;proto=http, for=192.0.2.9;Proto=https"},
        {**PROXY, "Forwarded": "proto=http;host=evil.example"},
    ],
)
def test_a_page_behind_a_named_proxy_with_tls_is_let_in(
    db: SessionDB, wait: Wait, said: dict[str, str]
) -> None:
    async def scenario() -> None:
        async with served(db, settings=settings()) as server:
            assert await begun(server, {**said, **PAGE}) == 201

    wait(scenario())


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ({**PROXY, "X-Forwarded-Proto": "http"}, 403),
        ({**PROXY, "X-Forwarded-Proto": "https, http"}, 403),
        ({**PROXY, "X-Forwarded-Proto": "javascript"}, 403),
        ({**PROXY, "X-Forwarded-Host": "evil.example"}, 421),
        ({**PROXY, "X-Forwarded-Host": f"{NAME}, evil.example"}, 421),
        ({**PROXY, "X-Forwarded-Host": f"{NAME}:8443"}, 403),
        ({**PROXY, "Origin": "https://evil.example"}, 403),
        ({**PROXY, "Origin": f"http://{NAME}"}, 403),
        ({**PROXY, "Origin": f"https://{NAME}.evil.example"}, 403),
        ({"Host": "evil.example", "X-Forwarded-Proto": "https"}, 421),
        ({"Host": NAME, "Forwarded": "proto=https;host=evil.example"}, 421),
        ({"Host": NAME, "Forwarded": "proto=https;proto=https"}, 403),
        ({"Host": NAME, "Forwarded": 'proto="https'}, 403),
        ({"Host": NAME, "Forwarded": ";;,=,"}, 403),
        ({"Host": NAME, "Forwarded": "proto=https extra"}, 403),
    ],
)
def test_what_a_proxy_says_does_not_open_the_door_to_others(
    db: SessionDB, wait: Wait, said: dict[str, str], status: int
) -> None:
    async def scenario() -> None:
        async with served(db, settings=settings()) as server:
            assert await begun(server, {**PAGE, **said}) == status

    wait(scenario())


@pytest.mark.parametrize("trusted", ["", "192.0.2.1", "10.0.0.0/8, ::1", "2001:db8::/32"])
def test_the_word_of_a_stranger_does_not_count(db: SessionDB, wait: Wait, trusted: str) -> None:
    async def scenario() -> None:
        async with served(db, settings=settings(trusted_proxies=trusted)) as server:
            assert await begun(server, {**PROXY, **PAGE}) == 403
            forwarded = {"Host": NAME, "Forwarded": f"proto=https;host={NAME}"}
            assert await begun(server, {**forwarded, **PAGE}) == 403
            # Nor does it lead past the name that the request really has.
            assert await begun(server, {"Host": "evil.example", "X-Forwarded-Host": NAME}) == 421
            link = await server.http.get("/", params={"token": TOKEN}, headers=PROXY)
            assert "secure" not in link.headers["set-cookie"].lower()

    wait(scenario())


def test_the_rate_counts_for_each_client_of_the_proxy_and_none_chooses_its_address(
    db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        slow = settings(requests_per_s=0.1, trusted_proxies="127.0.0.1, 192.0.2.0/24")
        async with served(db, settings=slow) as server:

            async def asked(clients: str) -> int:
                headers = {**PROXY, "X-Forwarded-For": clients}
                return (await server.http.get("/api/status", headers=headers)).status_code

            assert await asked("198.51.100.1") == 200
            assert await asked("198.51.100.1") == 429
            assert await asked("203.0.113.1, 198.51.100.1") == 429, "what it put before is not believed"
            assert await asked("198.51.100.1, 192.0.2.9") == 429, "behind two proxies that are trusted"
            assert await asked("198.51.100.1:4711") == 429
            assert await asked("203.0.113.1") == 200

    wait(scenario())


@pytest.mark.parametrize("prefix", ["", "/holdfast", "/a/b-c"])
@pytest.mark.parametrize("passed_on", [True, False])
def test_page_link_cookie_and_api_live_below_the_path(
    db: SessionDB, wait: Wait, prefix: str, passed_on: bool
) -> None:
    async def scenario() -> None:
        async with served(db, settings=settings(root_path=f"{prefix}/")) as server:
            before = prefix if passed_on else ""
            link = await server.http.get(f"{before}/", params={"token": TOKEN}, headers=PROXY)
            assert (link.status_code, link.headers["location"]) == (303, f"{prefix}/")
            cookie = [each.strip().lower() for each in link.headers["set-cookie"].split(";")]
            assert f"path={prefix or '/'}" in cookie
            assert "secure" in cookie
            for path in ("/", "/main.js", "/api/status", "/v1/models", "/healthz"):
                answer = await server.http.get(f"{before}{path}", headers=PROXY)
                assert answer.status_code == 200, path
            described = (await server.http.get(f"{before}/openapi.json", headers=PROXY)).json()
            assert described["servers"] == [{"url": prefix or "/"}]
            if prefix:
                bare = await server.http.get(prefix, headers=PROXY)
                assert (bare.status_code, bare.headers["location"]) == (307, f"{prefix}/")
                other = await server.http.get(f"{prefix}x/api/status", headers=PROXY)
                assert other.status_code == 404

    wait(scenario())


def test_two_cookies_of_one_name_are_both_looked_at(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db) as server, server.stranger() as browser:
            for cookies in ("{0}={1}; {0}=other", "{0}=other; {0}={1}"):
                headers = {"Cookie": cookies.format("holdfast_token", TOKEN)}
                assert (await browser.get("/api/status", headers=headers)).status_code == 200

    wait(scenario())


def test_the_printed_link_has_the_path() -> None:
    link = Link("::1", 8484, settings().token, "/holdfast")
    assert link.reveal() == "http://[::1]:8484/holdfast/"


@given(st.text(alphabet='=;," \\abfor[]:1_', max_size=40))
def test_any_forwarded_header_is_read_or_left(text: str) -> None:
    for hop in forwarded_hops(text):
        assert all(isinstance(value, str) for value in hop.values())


def test_an_address_of_ipv4_in_the_form_of_ipv6_is_one_of_ipv4() -> None:
    assert str(address_in("::ffff:127.0.0.1")) == "127.0.0.1"
    assert address_in("unknown") is None
