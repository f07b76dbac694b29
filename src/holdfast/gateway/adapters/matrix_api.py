"""The calls of a Matrix homeserver's client API, with its errors as the gateway's. Read `matrix.py` first."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from holdfast.core.secret import Secret
from holdfast.core.server_url import is_address, server_url_problem
from holdfast.gateway.contract import (
    ChatPlatformError,
    FileTooLarge,
    NotTaken,
    SendRefused,
    SignInRefused,
    SlowDown,
    Unreachable,
)

if TYPE_CHECKING:
    import httpx2

CALL_SECONDS = 30.0
CONNECT_SECONDS = 10.0
SLOW_DOWN_SECONDS = 5.0
MOST_SLOW_DOWN_SECONDS = 3600.0
UNAUTHORIZED, NOT_FOUND, TIMED_OUT, TOO_LARGE, TOO_MANY, BROKEN = 401, 404, 408, 413, 429, 500
CLIENT = "/_matrix/client/v3"
MEDIA = "/_matrix/client/v1/media"


@dataclass(frozen=True, slots=True)
class MatrixCredentials:
    """What signs an account in. The server knows a repeated message by the device, so the device is kept."""

    homeserver: str
    user_id: str
    token: Secret
    device_id: str


class MatrixRefused(SendRefused):
    """The server refused a call for good; `code` is the server's name for the reason."""

    def __init__(self, status: int, code: str, reason: str) -> None:
        super().__init__(f"the Matrix server refused it: {reason or code or status}")
        self.status = status
        self.code = code


class MatrixApi:
    """One homeserver, asked with one token. Used on one event loop; `aclose` there."""

    def __init__(self, homeserver: str, token: Secret | None = None) -> None:
        self._homeserver = homeserver.rstrip("/")
        self._token = token
        self._http: httpx2.AsyncClient | None = None
        self._is_closed = False

    async def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        params: Mapping[str, str] | None = None,
        seconds: float = CALL_SECONDS,
    ) -> dict[str, Any]:
        """The JSON object that the server answers."""
        return await self._answer(method, path, seconds, json=body, params=params)

    async def upload(self, content: bytes, name: str, media_type: str) -> str:
        """Put a file on the server; returns its address there."""
        try:
            answer = await self._answer(
                "POST",
                "/_matrix/media/v3/upload",
                CALL_SECONDS * 4,
                content=content,
                params={"filename": name} if name else {},
                headers={"content-type": media_type},
            )
        except Unreachable as cause:
            # A file that no message names is seen by nobody.
            raise NotTaken(str(cause)) from cause
        except MatrixRefused as cause:
            if cause.status == TOO_LARGE:
                raise FileTooLarge(f"the Matrix server takes no file of {len(content)} bytes") from cause
            raise
        return told(answer, "content_uri")

    async def download(self, address: str) -> AsyncGenerator[bytes, None]:
        """The bytes of a file, as they arrive."""
        if not address.startswith("mxc://"):
            raise SendRefused(f"{address!r} is no file on a Matrix server")
        parts = urlsplit(address)
        path = f"{MEDIA}/download/{quote(parts.netloc, safe=':')}/{quote(parts.path.strip('/'), safe='')}"
        import httpx2

        try:
            async with self._client().stream("GET", self._homeserver + path) as answer:
                if not answer.is_success:
                    await answer.aread()
                    raise failure(answer)
                async with aclosing(answer.aiter_bytes(65_536)) as pieces:
                    async for piece in pieces:
                        yield piece
        except httpx2.HTTPError as cause:
            raise translated(cause) from cause

    async def aclose(self) -> None:
        self._is_closed = True
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    async def _answer(self, method: str, path: str, seconds: float, **sent: Any) -> dict[str, Any]:  # noqa: ANN401 - as httpx takes it
        import httpx2

        timeout = httpx2.Timeout(seconds, connect=CONNECT_SECONDS)
        try:
            answer = await self._client().request(method, self._homeserver + path, timeout=timeout, **sent)
        except httpx2.HTTPError as cause:
            raise translated(cause) from cause
        if not answer.is_success:
            raise failure(answer)
        body = _json(answer)
        if body is None:
            raise Unreachable(f"{self._homeserver} did not answer as a Matrix server does")
        return body

    def _client(self) -> "httpx2.AsyncClient":
        if self._is_closed:
            raise NotTaken("the adapter is closed")
        if self._http is None:
            import httpx2

            from holdfast.process.http_transport import direct_transport

            secure, remote = self._homeserver.startswith("https://"), not _is_loopback(self._homeserver)
            headers = {"authorization": f"Bearer {self._token.reveal()}"} if self._token else {}
            self._http = httpx2.AsyncClient(
                headers=headers,
                timeout=CALL_SECONDS,
                trust_env=remote,
                verify=secure,
                transport=direct_transport(verify=secure, proxies=remote),
            )
        return self._http


async def sign_in(homeserver: str, user: str, password: Secret, device_id: str = "") -> MatrixCredentials:
    """Sign in with a password; returns what is to be stored. `homeserver` is a URL or a server's name.

    Give the `device_id` of an earlier sign-in, so that messages sent before are known to the server.
    """
    url = homeserver if "://" in homeserver else await _discover(homeserver)
    problem = server_url_problem(url)
    if problem:
        raise SignInRefused(f"the address of the Matrix server {problem}, not {url!r}")
    asked = {
        "type": "m.login.password",
        "identifier": {"type": "m.id.user", "user": user},
        "password": password.reveal(),
        "initial_device_display_name": "Holdfast",
        **({"device_id": device_id} if device_id else {}),
    }
    api = MatrixApi(url)
    try:
        found = await api.call("POST", f"{CLIENT}/login", asked)
    except SendRefused as cause:
        raise SignInRefused(str(cause)) from cause
    finally:
        await api.aclose()
    user_id, token, device = (told(found, name) for name in ("user_id", "access_token", "device_id"))
    return MatrixCredentials(url.rstrip("/"), user_id, Secret(token), device)


async def _discover(server_name: str) -> str:
    """The URL that a server's name stands for, as its `.well-known` file says; else the name itself."""
    url = f"https://{server_name}"
    api = MatrixApi(url)
    try:
        found = await api.call("GET", "/.well-known/matrix/client")
    except (SendRefused, Unreachable):
        return url
    finally:
        await api.aclose()
    server = found.get("m.homeserver")
    named = server.get("base_url") if isinstance(server, Mapping) else None
    return named if isinstance(named, str) and named else url


def told(answer: Mapping[str, Any], name: str) -> str:
    """A field that every Matrix server sends."""
    found = answer.get(name)
    if not isinstance(found, str) or not found:
        raise Unreachable(f"the server did not answer as a Matrix server does: no {name}")
    return found


def path_of(*parts: str) -> str:
    """The path of a call; each part may have any characters."""
    return "/".join([CLIENT, *(quote(part, safe="") for part in parts)])


def translated(error: "httpx2.HTTPError") -> ChatPlatformError:
    """The client's exception as one of ours: the call was surely not taken, or that is unknown."""
    import httpx2

    never_sent = (
        httpx2.ConnectError,
        httpx2.ConnectTimeout,
        httpx2.PoolTimeout,
        httpx2.ProxyError,
        httpx2.UnsupportedProtocol,
    )
    said = str(error) or type(error).__name__
    if isinstance(error, never_sent):
        return NotTaken(f"the Matrix server can't be reached: {said}")
    return Unreachable(f"the connection to the Matrix server broke: {said}")


def failure(answer: "httpx2.Response") -> ChatPlatformError:
    """An answer that is no success as one of our errors."""
    body, status = _json(answer) or {}, answer.status_code
    code, reason = str(body.get("errcode", "")), str(body.get("error", ""))
    if status == TOO_MANY:
        # Homeservers count the calls of an account, not those for a room.
        return SlowDown(_retry_seconds(body, answer.headers.get("retry-after", "")), whole_account=True)
    if status == UNAUTHORIZED:
        return SignInRefused(f"the Matrix server refused the token: {reason or code or status}")
    if status >= BROKEN or status == TIMED_OUT or not answer.is_client_error:
        return Unreachable(f"the Matrix server answered {status} {reason}".rstrip())
    return MatrixRefused(status, code, reason)


def _retry_seconds(body: Mapping[str, Any], header: str) -> float:
    wanted = body.get("retry_after_ms")
    if isinstance(wanted, int):
        return min(max(0.0, wanted / 1000), MOST_SLOW_DOWN_SECONDS)
    return min(float(header), MOST_SLOW_DOWN_SECONDS) if header.isdecimal() else SLOW_DOWN_SECONDS


def _json(answer: "httpx2.Response") -> dict[str, Any] | None:
    try:
        body = answer.json()
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host == "localhost" or (is_address(host) and ip_address(host).is_loopback)
