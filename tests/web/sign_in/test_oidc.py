"""Signing in at an issuer of OpenID Connect, over real HTTP, also when the issuer or the browser lies."""

import re
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from starlette.datastructures import QueryParams

from holdfast.core.settings import WebSettings
from holdfast.sessions import SessionDB
from holdfast.testing import FakeClock
from holdfast.web.sign_in.oidc_flow import OidcFlow, SignInFailed
from tests.web.api.api_server import Served, served
from tests.web.sign_in.issuers import CLIENT, OwnIssuer, own_issuer, provider_of_pypi, rsa_key

pytestmark = pytest.mark.slow  # real providers, with real keys

Wait = Callable[[Awaitable[Any]], Any]
ANNA = {"sub": "248289761001", "preferred_username": "Anna"}


@pytest.fixture
def issuer() -> Iterator[OwnIssuer]:
    with own_issuer() as issuer:
        yield issuer


def settings(url: str, **more: Any) -> WebSettings:  # noqa: ANN401
    return WebSettings.model_validate({"oidc_issuer": url, "oidc_client_id": CLIENT, **more})


async def begun(browser: httpx2.AsyncClient, **params: str) -> str:
    """The address at the issuer that a browser is sent to."""
    answer = await browser.get("/api/sign-in/oidc", params=params)
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"])


async def came_back(browser: httpx2.AsyncClient, address: str) -> httpx2.Response:
    parts = urlsplit(address)
    return await browser.get(f"{parts.path}?{parts.query}")


async def signed_in(browser: httpx2.AsyncClient, issuer: OwnIssuer, **params: str) -> httpx2.Response:
    return await came_back(browser, issuer.authorize(await begun(browser, **params)))


def let_in(browser: httpx2.AsyncClient, db: SessionDB) -> str:
    """The name of the account that the browser has a token of; empty without one."""
    token = browser.cookies.get("holdfast_token")
    user = db.users.of_token(token) if token else None
    return user.name if user else ""


def test_with_a_real_provider_the_linked_account_is_let_in(db: SessionDB, wait: Wait) -> None:
    async def at_the_provider(address: str, sub: str) -> str:
        async with httpx2.AsyncClient() as person:
            answer = await person.post(address, data={"sub": sub})
            return str(answer.headers["location"])

    async def scenario() -> None:
        with provider_of_pypi(ANNA) as url:
            user = db.users.create("Anna", "user")
            db.users.link_identity(user.id, url, ANNA["sub"])
            chosen = settings(url, oidc_client_secret="of the test")
            async with served(db, settings=chosen) as server, server.stranger() as browser:
                ways = (await browser.get("/api/sign-in/ways")).json()
                assert ways == {"password": False, "oidc": "127.0.0.1"}
                back = await at_the_provider(await begun(browser), ANNA["sub"])
                assert back.startswith(f"{server.url}/api/sign-in/oidc/callback?")
                answer = await came_back(browser, back)
                assert (answer.status_code, answer.headers["location"]) == (303, "/")
                assert let_in(browser, db) == "Anna"
                set_ = [each.lower() for each in answer.headers.get_list("set-cookie")]
                [session] = [each for each in set_ if each.startswith("holdfast_token=")]
                assert "samesite=strict" in session
                assert "httponly" in session
                stranger = await came_back(browser, await at_the_provider(await begun(browser), "somebody"))
                assert stranger.status_code == 403
                assert "holdfast users link-sign-in NAME" in stranger.text

    wait(scenario())


def test_the_cookie_of_the_flow_is_short_lived_and_for_its_paths_alone(
    db: SessionDB, wait: Wait, issuer: OwnIssuer
) -> None:
    async def scenario() -> None:
        async with served(db, settings=settings(issuer.url)) as server, server.stranger() as browser:
            answer = await browser.get("/api/sign-in/oidc")
            parts = [each.strip().lower() for each in answer.headers["set-cookie"].split(";")]
            assert {"httponly", "samesite=lax", "max-age=600", "path=/api/sign-in/oidc"} <= set(parts)
            asked = parse_qs(urlsplit(answer.headers["location"]).query)
            assert asked["redirect_uri"] == [f"{server.url}/api/sign-in/oidc/callback"]
            assert "code_verifier" not in asked
            done = await came_back(browser, issuer.authorize(answer.headers["location"]))
            [dropped] = [each for each in done.headers.get_list("set-cookie") if "sign_in=" in each]
            assert "max-age=0" in dropped.lower()

    wait(scenario())


@pytest.mark.parametrize("kind", ["RS256", "ES256", "without a key's name", "with a secret", "in the body"])
def test_what_an_honest_issuer_says_is_taken(db: SessionDB, wait: Wait, issuer: OwnIssuer, kind: str) -> None:
    more = {}
    if kind == "ES256":
        issuer.key, issuer.algorithm = ec.generate_private_key(ec.SECP256R1()), "ES256"
    if kind == "without a key's name":
        issuer.kid = None
    if kind == "with a secret":
        issuer.secret = more["oidc_client_secret"] = "the-secret-of-the-test"
    if kind == "in the body":
        issuer.described["token_endpoint_auth_methods_supported"] = ["client_secret_post"]

    async def scenario() -> None:
        user = db.users.create("Anna", "user")
        db.users.link_identity(user.id, issuer.url, issuer.subject)
        async with served(db, settings=settings(issuer.url, **more)) as server, server.stranger() as browser:
            answer = await signed_in(browser, issuer)
            assert answer.headers["location"] == "/", answer.headers
            assert let_in(browser, db) == "Anna"
            assert db.audit.list(limit=1)[0].action == "sign-in"

    wait(scenario())


def lies() -> dict[str, Callable[[OwnIssuer], None]]:
    now = time.time()

    def claims(**said: Any) -> Callable[[OwnIssuer], None]:  # noqa: ANN401
        return lambda issuer: issuer.claims.update(said)

    def signed(algorithm: str, key: Any = None) -> Callable[[OwnIssuer], None]:  # noqa: ANN401
        def lie(issuer: OwnIssuer) -> None:
            issuer.algorithm = algorithm
            issuer.signs_with = key(issuer) if key else None

        return lie

    def public_bytes(issuer: OwnIssuer) -> bytes:
        return issuer.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def weak(issuer: OwnIssuer) -> None:
        issuer.key = rsa_key(1024)

    return {
        "another nonce": claims(nonce="of-another-sign-in"),
        "no nonce": claims(nonce=None),
        "another audience": claims(aud="another-client"),
        "no audience": claims(aud=None),
        "two audiences without a party": claims(aud=[CLIENT, "another-client"]),
        "another party": claims(azp="another-client"),
        "another issuer": claims(iss="https://evil.example"),
        "expired": claims(exp=int(now) - 3600),
        "without an end": claims(exp=None),
        "of tomorrow": claims(iat=int(now) + 86_400),
        "not yet": claims(nbf=int(now) + 86_400),
        "without a person": claims(sub=None),
        "a person that is no text": claims(sub=7),
        "an empty person": claims(sub=""),
        "algorithm none": signed("none"),
        "an algorithm of the list's family": signed("RS512"),
        "the public key as a secret": signed("HS256", public_bytes),
        "a key of somebody else": signed("RS256", lambda _: rsa_key()),
        "a weak key": weak,
        "another key's name": lambda issuer: issuer.answers.update({"/keys": b'{"keys": []}'}),
        "keys that are none": lambda issuer: issuer.answers.update({"/keys": b'{"keys": 7}'}),
        "a key for encryption": lambda issuer: issuer.answers.update(
            {"/keys": issuer.answer("/keys").replace(b'"sig"', b'"enc"')}
        ),
        "no token": lambda issuer: issuer.answers.update({"/token": b'{"access_token": "a"}'}),
        "a token that is none": lambda issuer: issuer.answers.update({"/token": b'{"id_token": "x.y.z"}'}),
    }


@pytest.mark.filterwarnings("ignore:The RSA key is 1024 bits")
@pytest.mark.parametrize("lie", lies())
def test_a_token_that_is_not_for_this_sign_in_lets_nobody_in(
    db: SessionDB, wait: Wait, issuer: OwnIssuer, lie: str
) -> None:
    lies()[lie](issuer)

    async def scenario() -> None:
        user = db.users.create("Anna", "user")
        db.users.link_identity(user.id, issuer.url, issuer.subject)
        async with served(db, settings=settings(issuer.url)) as server, server.stranger() as browser:
            answer = await signed_in(browser, issuer)
            assert (answer.status_code, answer.headers["location"]) == (303, "/#/sign-in/oidc-failed")
            assert let_in(browser, db) == ""
            last = db.audit.list(limit=1)[0]
            assert last.action == "sign-in.refused"

    wait(scenario())


def test_a_clock_that_differs_a_little_is_allowed(db: SessionDB, wait: Wait, issuer: OwnIssuer) -> None:
    issuer.claims = {"exp": int(time.time()) - 20}

    async def scenario() -> None:
        async with (
            served(db, settings=settings(issuer.url, create_users=True)) as server,
            server.stranger() as browser,
        ):
            await signed_in(browser, issuer)
            assert let_in(browser, db) == "Anna"

    wait(scenario())


@pytest.mark.parametrize(
    "describes",
    [
        {"issuer": "https://evil.example"},
        {"issuer": None},
        {"token_endpoint": "http://evil.example/token"},
        {"token_endpoint": "file:///etc/passwd"},
        {"jwks_uri": "http://user@127.0.0.1/keys"},
        {"authorization_endpoint": 7},
    ],
)
def test_an_issuer_that_describes_another_one_is_not_used(
    db: SessionDB, wait: Wait, issuer: OwnIssuer, describes: dict[str, Any]
) -> None:
    issuer.described = describes

    async def scenario() -> None:
        async with served(db, settings=settings(issuer.url)) as server, server.stranger() as browser:
            answer = await browser.get("/api/sign-in/oidc")
            assert answer.headers["location"] == "/#/sign-in/oidc-issuer"

    wait(scenario())


@pytest.mark.parametrize(
    "said", [b"x" * 300_000, b"[]", b"no JSON", b'{"issuer": ' + b"[" * 100_000, b"\xff\xfe"]
)
def test_an_answer_that_is_too_long_or_no_object_is_not_used(
    db: SessionDB, wait: Wait, issuer: OwnIssuer, said: bytes
) -> None:
    issuer.answers["/.well-known/openid-configuration"] = said

    async def scenario() -> None:
        async with served(db, settings=settings(issuer.url)) as server, server.stranger() as browser:
            answer = await browser.get("/api/sign-in/oidc")
            assert answer.headers["location"] == "/#/sign-in/oidc-issuer"

    wait(scenario())


def test_an_issuer_that_is_not_there_is_said(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with (
            served(db, settings=settings("http://127.0.0.1:9")) as server,
            server.stranger() as browser,
        ):
            answer = await browser.get("/api/sign-in/oidc")
            assert answer.headers["location"] == "/#/sign-in/oidc-issuer"

    wait(scenario())


async def answered(server: Served, browser: httpx2.AsyncClient, **said: str) -> str:
    answer = await browser.get("/api/sign-in/oidc/callback", params=said)
    assert answer.status_code == 303
    assert server.url
    return str(answer.headers["location"])


def test_a_state_counts_once_and_only_in_the_browser_that_began(
    db: SessionDB, wait: Wait, issuer: OwnIssuer
) -> None:
    async def scenario() -> None:
        chosen = settings(issuer.url, create_users=True)
        async with (
            served(db, settings=chosen) as server,
            server.stranger() as browser,
            server.stranger() as other,
        ):
            stale = "/#/sign-in/oidc-stale"
            assert await answered(server, browser, code="c", state="s") == stale, "nothing was begun"
            address = await begun(browser)
            state = parse_qs(urlsplit(address).query)["state"][0]
            kept = {"Cookie": f"holdfast_sign_in={browser.cookies['holdfast_sign_in']}"}
            for wrong in ("", "x", state[:-1], f"{state}é"):
                assert await answered(server, browser, code="c", state=wrong) == stale
                browser.cookies.set("holdfast_sign_in", kept["Cookie"].partition("=")[2])
            back = issuer.authorize(address)
            assert (await came_back(other, back)).headers["location"] == stale
            assert let_in(other, db) == ""
            parts = urlsplit(back)
            first = await browser.get(f"{parts.path}?{parts.query}", headers=kept)
            assert first.headers["location"] == "/"
            again = urlsplit(issuer.authorize(address))
            replayed = await other.get(f"{again.path}?{again.query}", headers=kept)
            assert replayed.headers["location"] == stale

    wait(scenario())


def test_the_code_of_one_sign_in_does_not_fit_another(db: SessionDB, wait: Wait, issuer: OwnIssuer) -> None:
    async def scenario() -> None:
        chosen = settings(issuer.url, create_users=True)
        async with (
            served(db, settings=chosen) as server,
            server.stranger() as browser,
            server.stranger() as attacker,
        ):
            theirs = parse_qs(urlsplit(issuer.authorize(await begun(attacker))).query)["code"][0]
            state = parse_qs(urlsplit(await begun(browser)).query)["state"][0]
            found = await answered(server, browser, code=theirs, state=state)
            assert found == "/#/sign-in/oidc-issuer"
            assert issuer.refused == ["invalid_client"], "the secret behind the digest is another"
            assert let_in(browser, db) == ""

    wait(scenario())


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"error": "access_denied"}, "denied"),
        ({"error": "server_error"}, "failed"),
        ({"code": "c", "iss": "https://evil.example"}, "failed"),
        ({}, "failed"),
        ({"code": "x" * 5000}, "failed"),
    ],
)
def test_an_answer_without_a_code_is_explained(
    db: SessionDB, wait: Wait, issuer: OwnIssuer, said: dict[str, str], reason: str
) -> None:
    async def scenario() -> None:
        async with served(db, settings=settings(issuer.url)) as server, server.stranger() as browser:
            state = parse_qs(urlsplit(await begun(browser)).query)["state"][0]
            assert await answered(server, browser, state=state, **said) == f"/#/sign-in/oidc-{reason}"

    wait(scenario())


def test_an_issuer_that_names_itself_in_answers_must_do_so(
    db: SessionDB, wait: Wait, issuer: OwnIssuer
) -> None:
    issuer.described["authorization_response_iss_parameter_supported"] = True

    async def scenario() -> None:
        chosen = settings(issuer.url, create_users=True)
        async with served(db, settings=chosen) as server, server.stranger() as browser:
            answer = await signed_in(browser, issuer)
            assert answer.headers["location"] == "/#/sign-in/oidc-failed"
            answer = await came_back(browser, issuer.authorize(await begun(browser), iss=issuer.url))
            assert answer.headers["location"] == "/"

    wait(scenario())


def test_keys_that_the_issuer_changes_are_read_again_but_not_for_everybody(
    wait: Wait, issuer: OwnIssuer
) -> None:
    clock = FakeClock()
    flow = OidcFlow(settings(issuer.url), clock)
    callback = "http://127.0.0.1:8484/api/sign-in/oidc/callback"

    async def who() -> str:
        address, kept = await flow.begin(callback)
        back = issuer.authorize(address)
        person = await flow.finish(QueryParams(urlsplit(back).query), [kept.written()], callback)
        return person.subject

    async def scenario() -> None:
        assert await who() == issuer.subject
        issuer.key, issuer.kid = rsa_key(), "second"
        with pytest.raises(SignInFailed, match="0 keys"):
            await who()
        assert issuer.reads.count("/keys") == 1, "they were read a moment ago"
        clock.advance(31)
        assert await who() == issuer.subject
        assert issuer.reads.count("/keys") == 2
        assert issuer.reads.count("/.well-known/openid-configuration") == 1

    wait(scenario())


def test_nobody_gets_an_account_unasked_and_the_page_says_what_to_do(
    db: SessionDB, wait: Wait, issuer: OwnIssuer
) -> None:
    issuer.subject = "<script>alert(1)</script> it's"
    issuer.claims["preferred_username"] = "<b>Anna</b>"

    async def scenario() -> None:
        async with served(db, settings=settings(issuer.url)) as server, server.stranger() as browser:
            answer = await signed_in(browser, issuer)
            assert answer.status_code == 403
            assert answer.headers["content-type"].startswith("text/html")
            assert "holdfast users link-sign-in NAME" in answer.text
            assert "<script" not in answer.text
            assert "<b>" not in answer.text
            assert list(db.users.list()) == []
            assert let_in(browser, db) == ""

    wait(scenario())


def test_with_the_setting_everybody_gets_an_account_but_never_that_of_another(
    db: SessionDB, wait: Wait, issuer: OwnIssuer
) -> None:
    async def scenario() -> None:
        db.users.create("Berta", "admin")
        chosen = settings(issuer.url, create_users=True)
        async with served(db, settings=chosen) as server, server.stranger() as browser:
            assert (await signed_in(browser, issuer)).headers["location"] == "/"
            assert (await signed_in(browser, issuer)).headers["location"] == "/"
            assert [(each.name, each.role) for each in db.users.list()] == [
                ("Anna", "user"),
                ("Berta", "admin"),
            ]
            browser.cookies.clear()
            issuer.subject, issuer.claims["preferred_username"] = "subject-2", "berta"
            answer = await signed_in(browser, issuer)
            assert answer.status_code == 403
            assert "already" in answer.text
            assert let_in(browser, db) == ""

    wait(scenario())


def test_an_invitation_makes_the_account_and_links_it(db: SessionDB, wait: Wait, issuer: OwnIssuer) -> None:
    async def scenario() -> None:
        code = db.users.invite("guest", 3600)
        async with served(db, settings=settings(issuer.url)) as server, server.stranger() as browser:
            answer = await signed_in(browser, issuer, invitation=code)
            assert answer.headers["location"] == "/", answer.text
            [user] = db.users.list()
            assert (user.name, user.role) == ("Anna", "guest")
            issuer.subject, issuer.claims["preferred_username"] = "subject-2", "Carla"
            used = await signed_in(browser, issuer, invitation=code)
            assert used.status_code == 403
            assert re.search("invitation is not valid", used.text)
            assert len(db.users.list()) == 1

    wait(scenario())


def test_a_disabled_account_is_not_let_in(db: SessionDB, wait: Wait, issuer: OwnIssuer) -> None:
    async def scenario() -> None:
        user = db.users.create("Anna", "user")
        db.users.link_identity(user.id, issuer.url, issuer.subject)
        db.users.disable(user.id)
        async with served(db, settings=settings(issuer.url)) as server, server.stranger() as browser:
            answer = await signed_in(browser, issuer)
            assert answer.headers["location"] == "/#/sign-in/oidc-disabled"
            assert let_in(browser, db) == ""

    wait(scenario())


def test_below_a_path_and_behind_tls_the_cookies_and_the_way_back_are_there_too(
    db: SessionDB, wait: Wait, issuer: OwnIssuer
) -> None:
    name = "holdfast.example.org"
    proxy = {"Host": name, "X-Forwarded-Proto": "https", "X-Forwarded-Host": name}
    chosen = settings(
        issuer.url, create_users=True, allowed_hosts=name, trusted_proxies="127.0.0.1", root_path="/h"
    )

    async def scenario() -> None:
        async with served(db, settings=chosen) as server, server.stranger() as browser:
            answer = await browser.get("/h/api/sign-in/oidc", headers=proxy)
            address = answer.headers["location"]
            asked = parse_qs(urlsplit(address).query)
            assert asked["redirect_uri"] == [f"https://{name}/h/api/sign-in/oidc/callback"]
            cookie = answer.headers["set-cookie"]
            assert "path=/h/api/sign-in/oidc" in cookie.lower()
            assert "secure" in cookie.lower()
            back = urlsplit(issuer.authorize(address))
            kept = {**proxy, "Cookie": cookie.partition(";")[0]}
            done = await browser.get(f"{back.path}?{back.query}", headers=kept)
            assert (done.status_code, done.headers["location"]) == (303, "/h/")
            [session] = [each for each in done.headers.get_list("set-cookie") if "token=" in each]
            assert "path=/h" in session.lower()
            assert "secure" in session.lower()

    wait(scenario())
