"""`OidcIssuer`: what an issuer of OpenID Connect says of itself, its keys, and which ID tokens are its own.

The issuer's description and keys are kept for a while. A token signed with an unknown key has the keys read
again, so that an issuer can change them, but not at the pace of whoever sends tokens.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from holdfast.core.contract import Clock
from holdfast.core.distribution import install_command
from holdfast.core.errors import InvalidInput
from holdfast.web.sign_in.oidc_http import IssuerFailed, fetch_json

if TYPE_CHECKING:
    import jwt

ALGORITHMS = ("RS256", "ES256")
LEEWAY_SECONDS = 60
KEPT_SECONDS = 3600.0
KEYS_AGAIN_SECONDS = 30.0
LONGEST_SUBJECT = 255
REQUIRED = ["iss", "sub", "aud", "exp", "iat"]


class TokenRefused(Exception):
    """An ID token that is not for this sign-in. The message is for the log."""


@dataclass(frozen=True, slots=True)
class IssuerDescription:
    """The part of an issuer's description that is used."""

    authorization: str
    token: str
    keys: str
    secret_in_body: bool
    """Whether the token's address takes the secret only in the body of a request."""
    names_itself: bool
    """Whether it says in every answer who it is (RFC 9207)."""


class OidcIssuer:
    """One issuer, for one client. It lives on the loop."""

    def __init__(self, issuer: str, client_id: str, clock: Clock) -> None:
        self.issuer = issuer
        self._client_id = client_id
        self._clock = clock
        self._described: tuple[float, IssuerDescription] | None = None
        self._keys: tuple[float, list[dict[str, Any]]] | None = None

    async def description(self) -> IssuerDescription:
        now = self._clock.monotonic()
        if self._described is None or now - self._described[0] > KEPT_SECONDS:
            # The path of the issuer stays, as OpenID Connect Discovery says.
            url = f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"
            self._described = (now, self._checked(await fetch_json("GET", url)))
        return self._described[1]

    async def claims(self, id_token: str, nonce: str) -> dict[str, Any]:
        """What a token says about a person. Raises `TokenRefused`, and `IssuerFailed` without its keys."""
        import jwt

        try:
            key = await self._key(jwt.get_unverified_header(id_token))
            claims = jwt.decode(
                id_token,
                key,
                # The header's own word counts only when it is in this list.
                algorithms=[key.algorithm_name],
                audience=self._client_id,
                issuer=self.issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": REQUIRED, "enforce_minimum_key_length": True},
            )
        except jwt.PyJWTError as cause:
            raise TokenRefused(f"{type(cause).__name__}: {cause}") from cause
        if claims.get("nonce") != nonce:
            raise TokenRefused("it belongs to another sign-in (nonce)")
        others = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if claims.get("azp", None if others else self._client_id) != self._client_id:
            raise TokenRefused("it was made for another client (azp)")
        if not 0 < len(claims["sub"]) <= LONGEST_SUBJECT:
            raise TokenRefused("its subject is empty or too long")
        return claims

    async def _key(self, header: dict[str, Any]) -> "jwt.PyJWK":
        """The issuer's key that the token names, for the algorithm that it names."""
        import jwt

        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise TokenRefused(f"it is signed by {algorithm!r}, not by {' or '.join(ALGORITHMS)}")
        found = _fitting(await self._all_keys(), algorithm, kid)
        if not found:
            found = _fitting(await self._all_keys(again=True), algorithm, kid)
        if len(found) != 1:
            raise TokenRefused(f"the issuer has {len(found)} keys for {algorithm} named {kid!r}, not one")
        return jwt.PyJWK(found[0], algorithm)

    async def _all_keys(self, *, again: bool = False) -> list[dict[str, Any]]:
        now = self._clock.monotonic()
        age = None if self._keys is None else now - self._keys[0]
        if self._keys is None or age is None or age > (KEYS_AGAIN_SECONDS if again else KEPT_SECONDS):
            said = await fetch_json("GET", (await self.description()).keys)
            keys = said.get("keys")
            listed = keys if isinstance(keys, list) else []
            self._keys = (now, [each for each in listed if isinstance(each, dict)])
        return self._keys[1]

    def _checked(self, said: dict[str, Any]) -> IssuerDescription:
        if said.get("issuer") != self.issuer:
            raise IssuerFailed(f"{self.issuer} calls itself {str(said.get('issuer'))[:200]!r}")
        ways = said.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        return IssuerDescription(
            self._address(said, "authorization_endpoint"),
            self._address(said, "token_endpoint"),
            self._address(said, "jwks_uri"),
            secret_in_body=isinstance(ways, list) and "client_secret_basic" not in ways,
            names_itself=said.get("authorization_response_iss_parameter_supported") is True,
        )

    def _address(self, said: dict[str, Any], name: str) -> str:
        """An address of the issuer: encrypted, unless the issuer itself is on this machine and is not."""
        address = said.get(name)
        own = urlsplit(self.issuer)
        try:
            parts = urlsplit(address if isinstance(address, str) else "")
            here = own.scheme == "http" and (parts.scheme, parts.hostname) == ("http", own.hostname)
            usable = bool(parts.hostname) and not parts.username and (parts.scheme == "https" or here)
        except ValueError:
            usable = False
        if not usable or not isinstance(address, str):
            raise IssuerFailed(f"{self.issuer} has no usable {name}: {str(address)[:200]!r}")
        return address


def _fitting(keys: list[dict[str, Any]], algorithm: str, kid: object) -> list[dict[str, Any]]:
    kind = {"RS256": "RSA", "ES256": "EC"}[algorithm]
    return [
        each
        for each in keys
        if each.get("kty") == kind
        and each.get("use", "sig") == "sig"
        and each.get("alg", algorithm) == algorithm
        and (kid is None or each.get("kid") == kid)
    ]


def require_library() -> None:
    """Raise when what checks tokens is not installed."""
    try:
        import jwt
        import jwt.algorithms
    except ImportError as cause:
        raise InvalidInput(f"web.oidc_issuer needs the extra: {install_command('users')}") from cause
    if not jwt.algorithms.has_crypto:
        raise InvalidInput(f"web.oidc_issuer needs the extra: {install_command('users')}")
