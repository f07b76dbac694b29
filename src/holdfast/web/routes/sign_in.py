"""`/api/sign-in` and `/api/sign-out`: the ways of a browser to get the token of an account, and to end it.

The token of the installation, and an account's own, are taken by `auth.py`. These paths need no token.
"""

import logging
from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field
from starlette.responses import RedirectResponse

from holdfast.core.errors import UserDisabled
from holdfast.core.secret import Secret
from holdfast.sessions.users import TOKEN_PREFIX
from holdfast.web.auth import MOST_SHOWN
from holdfast.web.bodies import StrictBody
from holdfast.web.contract import WebDep
from holdfast.web.principal import PrincipalDep
from holdfast.web.problems import ProblemRaised, error_responses
from holdfast.web.sign_in.accounts import SIGN_IN_SECONDS, UnknownPerson
from holdfast.web.sign_in.oidc_flow import FLOW_SECONDS, OidcFlow, SignInFailed
from holdfast.web.sign_in.pages import unknown_person
from holdfast.web.sign_in.paths import CALLBACK
from holdfast.web.sign_in.session_cookie import (
    COOKIE,
    cookies_named,
    drop_session_cookie,
    set_session_cookie,
)
from holdfast.web.sign_in.ways import SignInWays

logger = logging.getLogger(__name__)

router = APIRouter(tags=["sign-in"])

FLOW_COOKIE = "holdfast_sign_in"
UNCACHED = {"Cache-Control": "no-store"}
PUBLIC: dict[str, object] = {"security": []}


class WaysView(BaseModel):
    """How one can sign in here besides the token."""

    password: bool = Field(description="whether any account has a password")
    oidc: str = Field(description="the name of the issuer's machine; empty: none is set")


class PasswordBody(StrictBody):
    name: Annotated[str, Field(max_length=200)]
    password: Annotated[str, Field(max_length=1000)]


class NewPasswordBody(StrictBody):
    old: Annotated[str, Field(max_length=1000, description="the password until now")]
    new: Annotated[str, Field(max_length=1000, description="of 10 characters or more")]


def _ways(request: Request) -> SignInWays:
    ways: SignInWays = request.app.state.sign_in
    return ways


@router.get("/api/sign-in/ways", openapi_extra=PUBLIC)
async def ways(request: Request) -> WaysView:
    """How one can sign in besides the token. Needs no token."""
    found = _ways(request)
    return WaysView(password=await found.sign_ins.has_passwords(), oidc=found.oidc_host)


@router.post(
    "/api/sign-in/password", status_code=204, responses=error_responses(401, 422), openapi_extra=PUBLIC
)
async def by_password(request: Request, web: WebDep, body: PasswordBody) -> Response:
    """Sign in with the name and the password of an account: the answer has the cookie. Needs no token."""
    found, client = _ways(request), client_of(request)
    count_attempt(found, body.name, client)
    token = await found.sign_ins.by_password(body.name, Secret(body.password), client)
    if token is None:
        raise ProblemRaised(
            401,
            "WrongPassword",
            "the name and the password do not belong together, or the account has no password. "
            "Nobody was let in.",
            "Try again, sign in with a token, or ask who runs this server.",
            UNCACHED,
        )
    found.attempts.succeeded(body.name, client)
    answer = Response(status_code=204, headers=UNCACHED)
    return set_session_cookie(
        request.scope, answer, token.reveal(), SIGN_IN_SECONDS, web.settings.root_path or "/"
    )


@router.put("/api/password", status_code=204, responses=error_responses(403, 409, 422, 429))
async def change_password(
    request: Request, principal: PrincipalDep, response: Response, body: NewPasswordBody
) -> None:
    """Change one's own password, with the old one. Other browsers are signed out; tokens stay."""
    user = principal.user
    if user is None:
        raise ProblemRaised(
            409,
            "NoAccount",
            "the installation's token belongs to no account, so it has no password. Nothing was changed.",
            "Give an account a password with `holdfast users password NAME`.",
        )
    found, client = _ways(request), client_of(request)
    count_attempt(found, user.name, client)
    old, new = Secret(body.old), Secret(body.new)
    if not await found.sign_ins.change_password(user, old, new, principal.token_id):
        raise ProblemRaised(
            403,
            "WrongPassword",
            "the old password is not this account's, or it has none. Nothing was changed.",
            "Try again, or ask who runs this server for a password or an invitation.",
        )
    found.attempts.succeeded(user.name, client)
    response.headers.update(UNCACHED)


@router.post("/api/sign-out", status_code=204, openapi_extra=PUBLIC)
async def sign_out(request: Request, web: WebDep) -> Response:
    """End what this browser was let in with, and forget it. A token that was not made by a sign-in stays."""
    shown = [each for each in cookies_named(request.scope, COOKIE) if each.startswith(TOKEN_PREFIX)]
    for token in shown[:MOST_SHOWN]:
        await _ways(request).sign_ins.sign_out(token)
    answer = Response(status_code=204, headers=UNCACHED)
    return drop_session_cookie(request.scope, answer, web.settings.root_path or "/")


@router.get("/api/sign-in/oidc", include_in_schema=False)
async def oidc(request: Request, web: WebDep, invitation: str = "") -> Response:
    """Go to the issuer."""
    root = web.settings.root_path
    try:
        address, flow = await _oidc(request).begin(_callback(request, root), invitation)
    except SignInFailed as failure:
        return _back(root, failure)
    answer = RedirectResponse(address, 303, headers=UNCACHED)
    answer.set_cookie(
        FLOW_COOKIE,
        flow.written(),
        max_age=FLOW_SECONDS,
        path=f"{root}/api/sign-in/oidc",
        secure=request.url.scheme == "https",
        httponly=True,
        # The browser comes back from another site.
        samesite="lax",
    )
    return answer


@router.get(CALLBACK, include_in_schema=False)
async def oidc_callback(request: Request, web: WebDep) -> Response:
    """Come back from the issuer: let the person in, or say what is missing."""
    root = web.settings.root_path
    answer = await _came_back(request, root)
    answer.delete_cookie(FLOW_COOKIE, path=f"{root}/api/sign-in/oidc", httponly=True, samesite="lax")
    return answer


async def _came_back(request: Request, root: str) -> Response:
    found, sign_ins, client = _ways(request), _ways(request).sign_ins, client_of(request)
    count_attempt(found, None, client)
    kept = cookies_named(request.scope, FLOW_COOKIE)
    try:
        person = await _oidc(request).finish(request.query_params, kept, _callback(request, root))
    except SignInFailed as failure:
        await sign_ins.refused(f"OpenID Connect: {failure}")
        return _back(root, failure)
    try:
        user = await sign_ins.by_identity(person)
    except UnknownPerson as why:
        return unknown_person(person, str(why), root)
    except UserDisabled as why:
        return _back(root, SignInFailed("disabled", str(why)))
    token = await sign_ins.token_for(user, person.way)
    if token is None:
        return _back(root, SignInFailed("disabled", f"the account {user.name!r} is disabled"))
    found.attempts.succeeded(None, client)
    answer = RedirectResponse(f"{root}/", 303, headers=UNCACHED)
    return set_session_cookie(request.scope, answer, token.reveal(), SIGN_IN_SECONDS, root or "/")


def client_of(request: Request) -> str:
    """The address that a request came from."""
    return request.client.host if request.client else ""


def count_attempt(found: SignInWays, name: str | None, client: str) -> None:
    """Count an attempt; raise when it must wait."""
    wait = found.attempts.begin(name, client)
    if wait > 0:
        seconds = str(int(wait) + 1)
        raise ProblemRaised(
            429,
            "TooManyAttempts",
            "there were too many attempts to sign in with this name, or from this address. "
            "This one was not looked at.",
            f"Wait {seconds} s, then try again.",
            {"Retry-After": seconds, **UNCACHED},
        )


def _oidc(request: Request) -> OidcFlow:
    flow = _ways(request).oidc
    if flow is None:
        raise ProblemRaised(
            404,
            "NoIssuer",
            "this server has no issuer of sign-ins.",
            "Sign in with a token or a password, or set web.oidc_issuer.",
        )
    return flow


def _callback(request: Request, root: str) -> str:
    """Where the issuer sends the browser back to; `OriginGuard` has checked the name."""
    return f"{request.url.scheme}://{request.headers['host']}{root}{CALLBACK}"


def _back(root: str, failure: SignInFailed) -> Response:
    """The page explains it."""
    logger.warning("web.sign_in_failed", extra={"reason": failure.reason, "cause": str(failure)[:500]})
    return RedirectResponse(f"{root}/#/sign-in/oidc-{failure.reason}", 303, headers=UNCACHED)
