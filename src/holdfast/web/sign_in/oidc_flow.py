"""`OidcFlow`: signing in at an issuer of OpenID Connect, by an authorization code with PKCE.

The browser goes to the issuer with a state, a nonce and the digest of a secret, and keeps all three in a
cookie for ten minutes. It comes back with a code, which counts once, and only with that cookie. Nothing that
comes back says where the browser goes next.
"""

import base64
import hashlib
import hmac
import re
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from starlette.datastructures import QueryParams

from holdfast.core.contract import Clock
from holdfast.core.settings import WebSettings
from holdfast.web.sign_in.accounts import Vouched
from holdfast.web.sign_in.oidc_http import IssuerFailed, fetch_json
from holdfast.web.sign_in.oidc_issuer import OidcIssuer, TokenRefused

FLOW_SECONDS = 600
MOST_USED = 10_000
LONGEST_CODE = 4096
PIECE = re.compile(r"[A-Za-z0-9_-]{20,100}")
INVITATION = re.compile(r"[A-Za-z0-9_-]{0,200}")


class SignInFailed(Exception):
    """The person is not signed in. `reason` is for the page, the message for the log."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Flow:
    """What a browser keeps of one sign-in until it is back."""

    state: str
    nonce: str
    verifier: str
    invitation: str = ""

    def written(self) -> str:
        return f"{self.state}.{self.nonce}.{self.verifier}.{self.invitation}"

    @classmethod
    def read(cls, text: str) -> "Flow | None":
        *pieces, invitation = text.split(".")
        if len(pieces) != 3 or not all(PIECE.fullmatch(each) for each in pieces):  # noqa: PLR2004 - as written
            return None
        state, nonce, verifier = pieces
        return cls(state, nonce, verifier, invitation) if INVITATION.fullmatch(invitation) else None


class OidcFlow:
    """The sign-ins at one issuer. It lives on the loop."""

    def __init__(self, settings: WebSettings, clock: Clock) -> None:
        self._settings = settings
        self._issuer = OidcIssuer(settings.oidc_issuer, settings.oidc_client_id, clock)
        self._used: OrderedDict[str, None] = OrderedDict()

    @property
    def issuer(self) -> str:
        return self._issuer.issuer

    async def begin(self, callback: str, invitation: str = "") -> tuple[str, Flow]:
        """The address at the issuer to go to, and what the browser keeps. Raises `SignInFailed`."""
        if not INVITATION.fullmatch(invitation):
            invitation = ""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        flow = Flow(state, nonce, verifier, invitation)
        digest = hashlib.sha256(flow.verifier.encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": self._settings.oidc_client_id,
            "redirect_uri": callback,
            "scope": "openid profile",
            "state": flow.state,
            "nonce": flow.nonce,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        try:
            address = (await self._issuer.description()).authorization
        except IssuerFailed as cause:
            raise SignInFailed("issuer", str(cause)) from cause
        return f"{address}{'&' if '?' in address else '?'}{urlencode(asked, quote_via=quote)}", flow

    async def finish(self, said: QueryParams, kept: list[str], callback: str) -> Vouched:
        """Who came back. Raises `SignInFailed`."""
        flow = self._flow_of(said, kept)
        try:
            described = await self._issuer.description()
            given = said.get("iss", None if described.names_itself else self.issuer)
            if given != self.issuer:
                raise SignInFailed("failed", f"the answer is of the issuer {given!r:.200}")
            if "error" in said:
                reason = "denied" if said["error"] == "access_denied" else "failed"
                raise SignInFailed(reason, f"the issuer said {said['error']!r:.200}")
            code = said.get("code", "")
            if not 0 < len(code) <= LONGEST_CODE:
                raise SignInFailed("failed", "the answer has no code")
            claims = await self._issuer.claims(await self._id_token(code, flow, callback), flow.nonce)
        except IssuerFailed as cause:
            raise SignInFailed("issuer", str(cause)) from cause
        except TokenRefused as cause:
            raise SignInFailed("failed", f"the ID token is refused: {cause}") from cause
        return self._person(claims, flow)

    def _flow_of(self, said: QueryParams, kept: list[str]) -> Flow:
        """The browser's own sign-in that this answer belongs to, once."""
        state = said.get("state", "").encode("utf-8", "surrogateescape")
        for flow in filter(None, map(Flow.read, kept)):
            if hmac.compare_digest(flow.state.encode(), state):
                break
        else:
            raise SignInFailed("stale", "the state is not that of a sign-in that this browser began")
        if len(self._used) >= MOST_USED:
            self._used.popitem(last=False)
        if flow.state in self._used:
            raise SignInFailed("stale", "the state was used before")
        self._used[flow.state] = None
        return flow

    async def _id_token(self, code: str, flow: Flow, callback: str) -> str:
        described, chosen = await self._issuer.description(), self._settings
        sent = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": callback,
            "code_verifier": flow.verifier,
        }
        secret = chosen.oidc_client_secret.reveal()
        more: dict[str, Any] = {}
        if secret and not described.secret_in_body:
            # RFC 6749 has both parts encoded before they are put together.
            more["auth"] = (quote(chosen.oidc_client_id, safe=""), quote(secret, safe=""))
        else:
            sent |= {"client_id": chosen.oidc_client_id} | ({"client_secret": secret} if secret else {})
        found = await fetch_json("POST", described.token, data=sent, **more)
        token = found.get("id_token")
        if not isinstance(token, str):
            raise TokenRefused("there is none")
        return token

    def _person(self, claims: dict[str, Any], flow: Flow) -> Vouched:
        subject = str(claims["sub"])
        name = claims.get(self._settings.oidc_name_claim)
        called = name.strip() if isinstance(name, str) and name.strip() else subject
        return Vouched(self.issuer, subject, called, f"OpenID Connect, {self.issuer}", flow.invitation)
