"""Signs a person in to a remote MCP server: shows an address, and takes what the browser brings back."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import InvalidInput
from holdfast.core.settings import McpServerSettings

if TYPE_CHECKING:
    from mcp.client.auth import AuthorizationCodeResult
    from starlette.requests import Request
    from starlette.responses import Response

LOOPBACK = "127.0.0.1"
DONE = "You are signed in. You can close this page and go back to the terminal."
REFUSED = "The server did not sign you in: {}. Nothing was changed."


async def sign_in(server: McpServerSettings, folder: Path, show: Callable[[str], None]) -> int:
    """Sign in and keep it in a folder; gives the number of tools that the server offers then."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    from holdfast.process.http_server import listen, serving
    from holdfast.tools.mcp import tools_of
    from holdfast.tools.mcp_sign_in import BrowserSignIn, SignIns

    if not server.url:
        raise InvalidInput(f"{server.name} is a command on this machine; there is nothing to sign in to")
    back = BroughtBack()

    async def tell(address: str) -> None:
        show(f"Open this address in a browser and sign in:\n{address}")

    with listen(LOOPBACK, 0) as listening:
        uri = f"http://{LOOPBACK}:{listening.getsockname()[1]}/callback"
        app = Starlette(routes=[Route("/callback", back.take)])
        async with serving(app, listening, name="sign-in", lifespan="off"):
            sign_ins = SignIns(folder, BrowserSignIn(uri, tell, back.answer))
            opening = asyncio.create_task(tools_of(server, sign_ins), name="sign-in")
            either: set[asyncio.Future[Any]] = {opening, back.refused}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if back.refused.done():
                opening.cancel()
                await asyncio.wait({opening})
                raise InvalidInput(REFUSED.format(back.refused.result()))
            tools, _ = await opening
            return len(tools)


class BroughtBack:
    """What the browser brings back from the server."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.refused: asyncio.Future[str] = loop.create_future()
        self._brought: asyncio.Future[AuthorizationCodeResult] = loop.create_future()

    async def answer(self) -> "AuthorizationCodeResult":
        return await self._brought

    async def take(self, request: "Request") -> "Response":
        """Answer the browser, which the server has sent here."""
        from mcp.client.auth import AuthorizationCodeResult
        from starlette.responses import PlainTextResponse

        given = request.query_params
        if self._brought.done() or self.refused.done():
            return PlainTextResponse("This address was used already.", 400)
        if "code" not in given:
            problem = given.get("error_description") or given.get("error") or "it gave no code"
            self.refused.set_result(problem[:300])
            return PlainTextResponse(REFUSED.format(problem[:300]), 400)
        code, state, issuer = given["code"], given.get("state"), given.get("iss")
        self._brought.set_result(AuthorizationCodeResult(code=code, state=state, iss=issuer))
        return PlainTextResponse(DONE)
