"""The cookie of a browser that is signed in: no script can read it, and no other site can have it sent."""

from starlette.responses import Response
from starlette.types import Scope

COOKIE = "holdfast_token"


def set_session_cookie(scope: Scope, answer: Response, token: str, seconds: int, path: str) -> Response:
    """Let the browser keep a token."""
    answer.set_cookie(
        COOKIE,
        token,
        max_age=seconds,
        path=path,
        secure=scope["scheme"] == "https",
        httponly=True,
        samesite="strict",
    )
    return answer


def drop_session_cookie(scope: Scope, answer: Response, path: str) -> Response:
    """Have the browser forget its token."""
    answer.delete_cookie(
        COOKIE, path=path, secure=scope["scheme"] == "https", httponly=True, samesite="strict"
    )
    return answer


def cookies_named(scope: Scope, name: str) -> list[str]:
    """The values of a cookie; it may come twice, when two servers below one address have one each."""
    wanted, found = name.encode(), []
    for header, value in scope["headers"]:
        if header == b"cookie":
            pairs = (each.strip().partition(b"=") for each in value.split(b";"))
            found += [text.strip(b'"').decode("latin-1") for given, _, text in pairs if given == wanted]
    return found
