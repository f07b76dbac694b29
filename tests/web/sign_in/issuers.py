"""Issuers of sign-ins for tests: one of PyPI as a process, and one of our own that can lie in every way."""

import base64
import hashlib
import hmac
import json
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

CLIENT = "holdfast-of-the-test"
PATIENCE = 60
Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


@contextmanager
def provider_of_pypi(*people: dict[str, str]) -> Iterator[str]:
    """The address of a running `oidc-provider-mock`, which knows these people."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    known = [text for each in people for text in ("--user-claims", json.dumps(each))]
    command = [sys.executable, "-W", "ignore", "-m", "oidc_provider_mock", "--port", str(port), *known]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + PATIENCE
        while not _listens(port):
            assert process.poll() is None, "the provider ended"
            assert time.monotonic() < until, "the provider does not listen"
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()
            process.wait()


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def rsa_key(bits: int = 2048) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)


@dataclass
class OwnIssuer:
    """An issuer that checks what it is asked as a real one does, and answers as a test says."""

    key: Key = field(default_factory=rsa_key)
    kid: str | None = "first"
    signs_with: Key | bytes | None = None
    """The key of the tokens, if it is another than the published one."""
    algorithm: str = "RS256"
    claims: dict[str, Any] = field(default_factory=dict)
    """Claims that differ; None leaves one out."""
    subject: str = "subject-1"
    described: dict[str, Any] = field(default_factory=dict)
    answers: dict[str, bytes] = field(default_factory=dict)
    """Whole answers by path, in place of the right ones."""
    reads: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    secret: str = ""
    url: str = ""
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def authorize(self, address: str, **more: str) -> str:
        """What a browser does there: where it is sent back to, with a code for the asked sign-in."""
        parts = urlsplit(address)
        assert f"{parts.scheme}://{parts.netloc}" == self.url
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        assert asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT
        assert asked["code_challenge_method"] == "S256"
        assert len(asked["state"]) >= 32
        assert "openid" in asked["scope"].split()
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state'], **more})}"

    def token(self, body: dict[str, str], authorization: str) -> dict[str, str] | str:
        """The answer for a code, or why there is none."""
        asked = self.codes.pop(body.get("code", ""), None)
        if asked is None:
            return "invalid_grant"
        digest = hashlib.sha256(body["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        pair = base64.b64encode(f"{CLIENT}:{self.secret}".encode()).decode()
        shown = authorization == f"Basic {pair}" if self.secret else body.get("client_id") == CLIENT
        same = challenge == asked["code_challenge"] and body["redirect_uri"] == asked["redirect_uri"]
        if not (same and shown):
            return "invalid_client"
        return {"token_type": "Bearer", "access_token": "a", "id_token": self.id_token(asked["nonce"])}

    def id_token(self, nonce: str) -> str:
        now = int(time.time())
        usual = {
            "iss": self.url,
            "sub": self.subject,
            "aud": CLIENT,
            "nonce": nonce,
            "iat": now,
            "exp": now + 300,
            "preferred_username": "Anna",
        }
        claims = {name: value for name, value in {**usual, **self.claims}.items() if value is not None}
        headers = {} if self.kid is None else {"kid": self.kid}
        key = self.key if self.signs_with is None else self.signs_with
        if self.algorithm == "none":
            return jwt.encode(claims, "", "none", headers)
        if self.algorithm == "HS256" and isinstance(key, bytes):
            # The library refuses to sign with a public key, and an attacker does not use the library so.
            return _hs256(claims, headers, key)
        assert not isinstance(key, bytes)
        return jwt.encode(claims, key, self.algorithm, headers)

    def answer(self, path: str) -> bytes:
        """The answer to a GET."""
        self.reads.append(path)
        if path in self.answers:
            return self.answers[path]
        if path == "/.well-known/openid-configuration":
            usual = {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "jwks_uri": f"{self.url}/keys",
            }
            return json.dumps({**usual, **self.described}).encode()
        return json.dumps({"keys": [self.public()]}).encode()

    def public(self) -> dict[str, Any]:
        public = self.key.public_key()
        known: dict[str, Any] = (
            RSAAlgorithm.to_jwk(public, as_dict=True)
            if isinstance(public, rsa.RSAPublicKey)
            else ECAlgorithm.to_jwk(public, as_dict=True)
        )
        return {**known, "use": "sig", **({} if self.kid is None else {"kid": self.kid})}


def _hs256(claims: dict[str, Any], headers: dict[str, str], key: bytes) -> str:
    def part(raw: bytes) -> bytes:
        return base64.urlsafe_b64encode(raw).rstrip(b"=")

    begun = part(json.dumps({"alg": "HS256", **headers}).encode()) + b"." + part(json.dumps(claims).encode())
    return (begun + b"." + part(hmac.new(key, begun, "sha256").digest())).decode()


@contextmanager
def own_issuer() -> Iterator[OwnIssuer]:
    """Our own issuer on a port."""
    issuer = OwnIssuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._say(200, issuer.answer(urlsplit(self.path).path))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            given = {name: values[0] for name, values in parse_qs(body).items()}
            found = issuer.token(given, self.headers.get("authorization", ""))
            if isinstance(found, str):
                issuer.refused.append(found)
                self._say(400, json.dumps({"error": found}).encode())
            else:
                self._say(200, issuer.answers.get("/token", json.dumps(found).encode()))

        def _say(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Tests read what they need from the issuer."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        issuer.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield issuer
        finally:
            server.shutdown()
            thread.join()
